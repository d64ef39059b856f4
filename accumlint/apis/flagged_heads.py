"""Model classes of transformers that set `accepts_loss_kwargs = False`: for them the Trainer divides itself.

A class of a user's file that derives from one of these inherits the flag, which is in another file.
"""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SOURCE = "transformers 5.24.0, models/*/modeling_*.py"
MODELS = _names(
    "CohereCompass Cosmos3Edge Cosmos3Omni Dots3Note EmbeddingGemma2 Ernie4_5_VLMoe Exaone4_5_ Gemma3 Gemma3n Gemma4 "
    "Gemma4Unified Glm46V Glm4v Glm4vMoe Glm5Next GlmImage GlmOcr HYV4VL HunYuanVL HyperCLOVAXVisionV2 Inkling2 "
    "Inkling2Loop Inkling Lfm3Vl PaddleOCRVL PaliGemma Qwen2VL Qwen2_5_VL Qwen3VL Qwen3VLMoe Qwen3_5 Qwen3_5Moe "
    "Qwen4Exp VideoLlama3"
)
GENERATORS = _names(
    "CohereCompass Cosmos3Edge Cosmos3Omni Ernie4_5_VLMoe Exaone4_5_ Gemma3n Gemma4 Gemma4Unified Glm46V Glm4v "
    "Glm4vMoe Glm5Next GlmImage GlmOcr GradiumPhononTTS HyperCLOVAXVisionV2 Inkling2 Inkling2Loop Inkling Kimi_K25 "
    "Molmo2 MuseGlimmer MuseSpark PocketTTS Qwen2_5_VL Qwen3VL Qwen3VLMoe Qwen3_5 Qwen3_5Moe Qwen4Exp"
)
FLAGGED: frozenset[str] = frozenset(
    {
        *(f"{family}Model" for family in MODELS),
        *(f"{family}ForConditionalGeneration" for family in GENERATORS),
        "ConvNextForImageClassification",
        "ConvNextV2ForImageClassification",
        "DiffusionGemmaEncoderModel",
        "EsmPreTrainedModel",
        "MLCDPreTrainedModel",
        "TimmWrapperPreTrainedModel",
    }
)
