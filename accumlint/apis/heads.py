"""Declared loss contracts: what the `loss` of a transformers model divides by, by the suffix of its class.

`outputs.loss` hides the loss in another file, so its normaliser is declared here. `count` is Python text over
`{labels}`, the labels that were passed to the model; None where no count of the labels is the normaliser.
"""

from __future__ import annotations

from dataclasses import dataclass

from accumlint.apis.language import ClassRow, Count, Make, Role, Row

SOURCE = "transformers 5.24.0, loss/loss_utils.py"


@dataclass(frozen=True, slots=True)
class Head:
    """The loss contract of model classes whose name ends with `suffix`, an Auto class or a concrete one.

    `shifts` says that the labels are moved by one position inside, so that their first column is never a target.
    `ignored` is the label that is no target. `unsure` says why no repair may rely on the count, "" if it may. `labels`
    is the argument that holds the labels, `assumes` what must hold beside the contract.
    """

    suffix: str
    count: str | None
    kind: Count
    ignored: int | None = -100
    shifts: bool = False
    separable: bool = True
    unsure: str = ""
    source: str = SOURCE
    labels: str = "labels"
    assumes: tuple[str, ...] = ()


VALID = "({labels} != -100).sum()"
ROUTER = "the model adds no auxiliary loss of a router (output_router_logits)"
MODELS = "transformers 5.24.0, models"
UNSHIFTED = (
    "Bart", "BigBirdPegasus", "Blenderbot", "BlenderbotSmall", "CpmAnt", "MBart", "Marian", "Mvp", "PLBart", "Pegasus",
    "TrOCR", "Whisper",
)  # fmt: skip
"""Decoders whose causal head compares the labels as they are with the logits."""
OTHERWISE = (
    "ClvpForCausalLM", "GitForCausalLM", "MusicgenForCausalLM", "MusicgenMelodyForCausalLM", "ProphetNetForCausalLM",
    "CsmDepthDecoderForCausalLM", "BlipTextLMHeadModel", "XLNetLMHeadModel", "WithLMHeadModel", "LukeForMaskedLM",
    "ViltForMaskedLM", "BrosForTokenClassification", "BlipForQuestionAnswering", "VisualBertForQuestionAnswering",
    "FlaubertForQuestionAnswering", "XLMForQuestionAnswering", "XLNetForQuestionAnswering",
    "LxmertForQuestionAnswering", "TapasForQuestionAnswering", "ViltForQuestionAnswering",
)  # fmt: skip
"""Heads whose loss is not that of their kind: several terms, other masks, other targets."""
ROUTED = (
    "Dbrx", "DeepseekV4", "Doge", "Ernie4_5_Moe", "FlexOlmo", "Flint", "GptOss", "GraniteMoe", "GraniteMoeSWA",
    "GraniteMoeHybrid", "GraniteMoeShared", "HYV3", "Jamba", "JetMoe", "Laguna", "LaraMini", "Mellum", "MiniMax",
    "MiniMaxM2", "MiniMaxM3VL", "Mixtral", "Olmoe", "Phimoe", "Qwen2Moe", "Qwen3_5Moe", "Qwen3Moe", "Qwen3Next",
    "Qwen4Exp",
)  # fmt: skip
"""Mixtures of experts, which may add a loss that couples the batch."""

HEADS: tuple[Head, ...] = (
    # Exceptions before their families: the longest suffix that fits wins anyway.
    *(
        Head(f"{family}ForCausalLM", VALID, Count.VALID_TARGETS, source=f"{MODELS}: CrossEntropyLoss, no shift")
        for family in UNSHIFTED
    ),
    *(
        Head(
            name, None, Count.VALID_TARGETS, unsure="its loss is not that of its kind", source=f"{MODELS}: its forward"
        )
        for name in OTHERWISE
    ),
    Head(
        "DoubleHeadsModel",
        None,
        Count.VALID_TARGETS,
        shifts=True,
        unsure="two terms with two normalisers: tokens and choices",
        source="transformers 5.24.0, models/gpt2/modeling_gpt2.py:825-833",
    ),
    Head(
        "ForCausalLM",
        "({labels}[..., 1:] != -100).sum()",
        Count.VALID_TARGETS,
        shifts=True,
        source=f"{SOURCE}:51-75",
        assumes=(ROUTER,),
    ),
    Head(
        "LMHeadModel",
        "({labels}[..., 1:] != -100).sum()",
        Count.VALID_TARGETS,
        shifts=True,
        source=f"{SOURCE}:51-75",
    ),
    Head("ForMaskedLM", VALID, Count.VALID_TARGETS, source=f"{SOURCE}:76-93"),
    Head("ForTokenClassification", VALID, Count.VALID_TARGETS, source=f"{SOURCE}:142-149"),
    Head(
        "ForSeq2SeqLM",
        VALID,
        Count.VALID_TARGETS,
        source="transformers 5.24.0, models/t5/modeling_t5.py:1052-1057; models/bart/modeling_bart.py:937-941",
    ),
    *(
        Head(
            f"{family}ForConditionalGeneration",
            VALID,
            Count.VALID_TARGETS,
            source="transformers 5.24.0, models/t5/modeling_t5.py:1052-1057; models/bart/modeling_bart.py:937-941",
        )
        for family in ("T5", "MT5", "Bart", "MBart", "Pegasus", "Whisper", "M2M100", "LongT5", "UMT5", "Blenderbot")
    ),
    Head(
        "EncoderDecoderModel",
        VALID,
        Count.VALID_TARGETS,
        source="transformers 5.24.0, models/encoder_decoder/modeling_encoder_decoder.py",
    ),
    Head(  # vision-language models map to the shifted causal loss, older encoder-decoders do not
        "ForConditionalGeneration",
        None,
        Count.VALID_TARGETS,
        unsure="encoder-decoders do not shift the labels, vision-language models do",
        source=f"{SOURCE}:187",
    ),
    *(
        Head(
            f"For{what}Classification",
            "{labels}.size(0)",
            Count.ROWS,
            ignored=None,
            # Regression and multi-label problems divide by elements: rows times a constant, which weighs the same.
            assumes=("no label of a row is -100",),
            source=f"{SOURCE}:96-120",
        )
        for what in ("Sequence", "Image", "Video", "Audio")
    ),
    Head(
        "ForMultipleChoice",
        "{labels}.size(0)",
        Count.ROWS,
        assumes=("no label of a row is -100",),
        source="transformers 5.24.0, models/bert/modeling_bert.py",
    ),
    Head(
        "ForNextSentencePrediction",
        "{labels}.size(0)",
        Count.ROWS,
        assumes=("no label of a row is -100",),
        source="transformers 5.24.0, models/bert/modeling_bert.py",
    ),
    Head(
        "ForQuestionAnswering",
        "{labels}.size(0)",
        Count.ROWS,
        ignored=None,
        source=f"{SOURCE}:123-139",
        labels="start_positions",
        assumes=("no start or end position lies outside of the input, where it would be ignored",),
    ),
    Head(
        "ForSemanticSegmentation",
        "({labels} != 255).sum()",
        Count.VALID_TARGETS,
        ignored=255,
        source=f"{SOURCE}:151-171",
        assumes=("the model has more than one class, and ignores label 255",),
    ),
    Head(
        "ForObjectDetection",
        None,
        Count.DECLARED,
        ignored=None,
        unsure="divides by the number of boxes over all ranks",
        source="transformers 5.24.0, loss/loss_for_object_detection.py:258-265",
    ),
    *(
        Head(
            f"For{what}Segmentation",
            None,
            Count.DECLARED,
            ignored=None,
            unsure="divides by the number of matched masks",
            source="transformers 5.24.0, loss/loss_for_object_detection.py",
        )
        for what in ("Instance", "Universal", "Image")
    ),
    Head(
        "ForCTC",
        None,
        Count.ROWS,
        unsure="config.ctc_loss_reduction decides, and is 'sum' by default for Wav2Vec2",
        source="transformers 5.24.0, loss/loss_ctc.py; models/wav2vec2/configuration_wav2vec2.py:203",
    ),
    Head(
        "ForPreTraining",
        None,
        Count.VALID_TARGETS,
        unsure="several terms with several normalisers",
        source="transformers 5.24.0, models/bert/modeling_bert.py",
    ),
    *(
        Head(
            f"{family}ForCausalLM",
            None,
            Count.VALID_TARGETS,
            shifts=True,
            separable=False,
            unsure="the router's auxiliary loss couples the batch",
            source=f"{SOURCE}:51-75",
        )
        for family in ROUTED
    ),
    Head(
        "CLIPModel",
        None,
        Count.ROWS,
        ignored=None,
        separable=False,
        unsure="contrastive: the batch's rows are each other's negatives",
        source="transformers 5.24.0, models/clip/modeling_clip.py",
    ),
)


def find_head(class_name: str) -> Head | None:
    """The contract of a class by its (dotted) name: the longest suffix that fits."""
    fitting = [head for head in HEADS if class_name.rpartition(".")[2].endswith(head.suffix)]
    return max(fitting, key=lambda head: len(head.suffix), default=None)


FROM_PRETRAINED = "pretrained_model_name_or_path, *args, **kwargs"
AUTO_CLASSES = (
    "AutoModel",
    *(
        f"AutoModelFor{head}"
        for head in (
            "CausalLM",
            "MaskedLM",
            "Seq2SeqLM",
            "SequenceClassification",
            "TokenClassification",
            "QuestionAnswering",
            "MultipleChoice",
            "ImageClassification",
            "SemanticSegmentation",
            "ObjectDetection",
            "CTC",
            "PreTraining",
            "VideoClassification",
            "AudioClassification",
        )
    ),
)

ROWS = (
    *(
        Row(
            f"transformers.{name}.{maker}",
            FROM_PRETRAINED if maker == "from_pretrained" else "config, **kwargs",
            "transformers 5.24.0, models/auto/auto_factory.py",
            (Make(Role.MODEL, canonical=f"transformers.{name}"),),
        )
        for name in AUTO_CLASSES
        for maker in ("from_pretrained", "from_config")
    ),
)

CLASSES = tuple(
    ClassRow(f"transformers.{name}", bases=("transformers.PreTrainedModel",), role=Role.MODEL) for name in AUTO_CLASSES
)
