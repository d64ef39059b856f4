"""transformers: schedules, the Trainer's contract with `compute_loss`, collators and what they do to counts."""

from accumlint.apis.language import (
    Arg,
    Attr,
    Backward,
    ClassRow,
    Clear,
    Clip,
    Const,
    Is,
    Make,
    Microstep,
    Operand,
    OwnerAttr,
    Part,
    PatternRow,
    Ranks,
    Receiver,
    Rename,
    Role,
    Row,
    Step,
    Window,
)

TRAINER = "transformers.Trainer"
SCHEDULER = "torch.optim.lr_scheduler.LRScheduler"
SOURCE = "transformers 5.24.0, trainer.py"
OPTIMIZATION = "transformers 5.24.0, optimization.py"
COLLATORS = "transformers 5.24.0, data/data_collator.py"
TRAINER_PARAMETERS = (
    "model=None, args=None, data_collator=None, train_dataset=None, eval_dataset=None, processing_class=None, "
    "model_init=None, compute_loss_func=None, compute_metrics=None, callbacks=None, optimizers=(None, None), "
    "optimizer_cls_and_kwargs=None, preprocess_logits_for_metrics=None, **kwargs"
)
ARGUMENTS = (
    "output_dir=None, *args, gradient_accumulation_steps=1, max_grad_norm=1.0, average_tokens_across_devices=True, "
    "**kwargs"
)
PART = "transformers.Trainer.accelerator"
STEPS = Attr("args.gradient_accumulation_steps")
BOUNDARY = Is(Attr("should_step"), True)
SCALED = Attr("loss_is_scaled_for_ga")


def collator(name: str, parameters: str, **attributes: Operand) -> Row:
    """A collate function: `padded` batches, `ignored` the label that pads, `counts_vary` whether targets do."""
    does = Make(Role.COLLATOR, attributes=tuple(attributes.items()))
    return Row(f"transformers.{name}", parameters, COLLATORS, (does,))


ROWS = (
    Row(
        TRAINER,
        TRAINER_PARAMETERS,
        f"{SOURCE}:379",
        (Make(Role.TRAINER, attributes=(("args", Arg("args")), ("compute_loss_func", Arg("compute_loss_func")))),),
    ),
    Row(
        "transformers.TrainingArguments",
        ARGUMENTS,
        "transformers 5.24.0, training_args.py",
        (
            Make(
                Role.CONTEXT,
                attributes=(
                    ("gradient_accumulation_steps", Arg("gradient_accumulation_steps")),
                    ("max_grad_norm", Arg("max_grad_norm")),
                    ("average_tokens_across_devices", Arg("average_tokens_across_devices")),
                ),
            ),
        ),
    ),
    Row(
        f"{TRAINER}.compute_loss.__return__",
        "value",
        f"{SOURCE}:823-830, 2106-2127",
        (
            Backward(Arg("value"), when=(Is(SCALED, True, unknown=True),)),
            Backward(
                Arg("value"),
                divided_by=Attr("current_gradient_accumulation_steps"),
                when=(Is(SCALED, False),),
            ),
        ),
        assumes=("the model's forward takes loss kwargs, so that the Trainer divides nowhere",),
        versions=">=4.46",
    ),
    Row(  # what the user's own training_step leaves to the Trainer; the scheduler moves with the step
        f"{TRAINER}.training_step.__after__",
        "model, inputs, num_items_in_batch",
        f"{SOURCE}:1869-1960, 2199-2216, 2289-2367",
        (
            Microstep(STEPS, flag="should_step", last_of_loader=Const(True)),
            Clip(Receiver(), kind="norm", limit=Attr("args.max_grad_norm"), when=(BOUNDARY,)),
            Step(Receiver(), when=(BOUNDARY,)),
            Clear(Receiver(), when=(BOUNDARY,)),
        ),
        assumes=("the Trainer's gradient_accumulation_steps is the number of microbatches of a window",),
    ),
    Row(f"{TRAINER}.train", "resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None", f"{SOURCE}:1450", ()),
    Row(f"{TRAINER}.log", "logs, start_time=None", SOURCE, ()),
    Row(
        "transformers.get_scheduler",
        "name, optimizer, num_warmup_steps=None, num_training_steps=None, scheduler_specific_kwargs=None",
        f"{OPTIMIZATION}:960",
        (Make(Role.SCHEDULER, of=(Arg("optimizer"),), canonical=SCHEDULER),),
    ),
    Row(
        "accumlint.AnySchedule",
        "optimizer, *args, **kwargs",
        f"{OPTIMIZATION}:39-960",
        (Make(Role.SCHEDULER, of=(Arg("optimizer"),), canonical=SCHEDULER),),
    ),
    collator("DefaultDataCollator", "return_tensors='pt'", padded=Const(False), counts_vary=Const(False)),
    collator("default_data_collator", "features, return_tensors='pt'", padded=Const(False), counts_vary=Const(False)),
    collator(
        "DataCollatorWithPadding",
        "tokenizer, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors='pt'",
        padded=Const(True),
    ),
    collator(
        "DataCollatorForTokenClassification",
        "tokenizer, padding=True, max_length=None, pad_to_multiple_of=None, label_pad_token_id=-100, "
        "return_tensors='pt'",
        padded=Const(True),
        ignored=Arg("label_pad_token_id"),
        counts_vary=Const(True),
    ),
    collator(
        "DataCollatorForSeq2Seq",
        "tokenizer, model=None, padding=True, max_length=None, pad_to_multiple_of=None, label_pad_token_id=-100, "
        "return_tensors='pt'",
        padded=Const(True),
        ignored=Arg("label_pad_token_id"),
        counts_vary=Const(True),
    ),
    collator(  # masked language modelling draws the targets; causal pads with -100 where the tokenizer pads
        "DataCollatorForLanguageModeling",
        "tokenizer, mlm=True, *args, **kwargs",
        padded=Const(True),
        ignored=Const(-100),
        masked=Arg("mlm"),
        counts_vary=Const(True),
    ),
    collator(
        "DataCollatorForPermutationLanguageModeling",
        "tokenizer, plm_probability=0.16666666666666666, max_span_length=5, return_tensors='pt'",
        padded=Const(True),
        ignored=Const(-100),
        counts_vary=Const(True),
    ),
    collator(
        "DataCollatorWithFlattening",
        "*args, **kwargs",
        padded=Const(False),
        ignored=Const(-100),
        counts_vary=Const(True),
    ),
    collator(
        "DataCollatorForMultipleChoice",
        "tokenizer, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors='pt'",
        padded=Const(True),
        counts_vary=Const(False),
    ),
)

CLASSES = (
    ClassRow(
        TRAINER,
        role=Role.TRAINER,
        attributes=(
            ("loss_is_scaled_for_ga", Const(None)),
            ("accelerator", Part(PART)),
            ("num_processes", Ranks()),
            ("current_gradient_accumulation_steps", Window(STEPS, "size")),
        ),
    ),
    ClassRow(  # 4.45.2, trainer.py:4818: Accelerate is told the number of steps, and its backward divides
        PART,
        bases=("accelerate.Accelerator",),
        role=Role.ACCELERATOR,
        attributes=(
            ("gradient_accumulation_steps", OwnerAttr("args.gradient_accumulation_steps")),
            ("sync_gradients", Window(OwnerAttr("args.gradient_accumulation_steps"), "ends")),
        ),
        versions="<4.46",
    ),
    ClassRow(  # trainer.py:823-830: Accelerate is told one step; trainer.py:1905-1915: the Trainer sets its flag
        PART,
        bases=("accelerate.Accelerator",),
        role=Role.ACCELERATOR,
        attributes=(
            ("gradient_accumulation_steps", Const(1)),
            ("sync_gradients", Window(OwnerAttr("args.gradient_accumulation_steps"), "ends")),
        ),
        versions=">=4.46",
    ),
    ClassRow("transformers.Seq2SeqTrainer", bases=(TRAINER,), role=Role.TRAINER),
    ClassRow("transformers.PreTrainedModel", bases=("torch.nn.Module",), role=Role.MODEL),
)

PATTERNS = (
    PatternRow("transformers.get_*_schedule*", "accumlint.AnySchedule"),
    PatternRow("pytorch_transformers.[A-Z]*Schedule*", "accumlint.AnySchedule"),
)

RENAMES = (
    Rename("transformers.trainer", "transformers"),
    Rename("transformers.trainer_seq2seq", "transformers"),
    Rename("transformers.training_args", "transformers"),
    Rename("transformers.modeling_utils", "transformers"),
    Rename("transformers.data.data_collator", "transformers"),
    Rename("transformers.models.auto.modeling_auto", "transformers"),
    Rename("transformers.Seq2SeqTrainingArguments", "transformers.TrainingArguments"),
)
