"""torch.optim: optimizers, their step and clear, averaged models; optimizers of other packages that behave alike."""

from accumlint.apis.language import (
    Arg,
    ClassRow,
    Clear,
    Effect,
    Make,
    PatternRow,
    Receiver,
    Rename,
    Role,
    Row,
    Step,
    Wrap,
    Yields,
)

OPTIMIZER = "torch.optim.Optimizer"
SOURCE = "torch 2.13.0, optim/"
MAKE: tuple[Effect, ...] = (Make(Role.OPTIMIZER, of=(Arg("params"),), attributes=(("lr", Arg("lr")),)),)

CONSTRUCTORS = {
    "ASGD": "params, lr=0.01, lambd=0.0001, alpha=0.75, t0=1000000.0, weight_decay=0, foreach=None, maximize=False, "
    "differentiable=False, capturable=False",
    "Adadelta": "params, lr=1.0, rho=0.9, eps=1e-06, weight_decay=0, foreach=None, *, capturable=False, "
    "maximize=False, differentiable=False",
    "Adafactor": "params, lr=0.01, beta2_decay=-0.8, eps=(None, 0.001), d=1.0, weight_decay=0.0, *, foreach=None, "
    "maximize=False",
    "Adagrad": "params, lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, "
    "maximize=False, differentiable=False, fused=None",
    "Adam": "params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False, *, foreach=None, "
    "maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False",
    "AdamW": "params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False, *, maximize=False, "
    "foreach=None, capturable=False, differentiable=False, fused=None",
    "Adamax": "params, lr=0.002, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, foreach=None, *, maximize=False, "
    "differentiable=False, capturable=False",
    "LBFGS": "params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-07, tolerance_change=1e-09, "
    "history_size=100, line_search_fn=None",
    "Muon": "params, lr=0.001, weight_decay=0.1, momentum=0.95, nesterov=True, "
    "ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-07, ns_steps=5, adjust_lr_fn=None",
    "NAdam": "params, lr=0.002, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, momentum_decay=0.004, "
    "decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False",
    "RAdam": "params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, decoupled_weight_decay=False, *, "
    "foreach=None, maximize=False, capturable=False, differentiable=False",
    "RMSprop": "params, lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, centered=False, "
    "capturable=False, foreach=None, maximize=False, differentiable=False",
    "Rprop": "params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-06, 50), *, capturable=False, foreach=None, "
    "maximize=False, differentiable=False",
    "SGD": "params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, "
    "foreach=None, differentiable=False, fused=None",
    "SparseAdam": "params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, maximize=False",
}

ROWS = (
    Row(OPTIMIZER, "params, defaults", f"{SOURCE}optimizer.py", (Make(Role.OPTIMIZER, of=(Arg("params"),)),)),
    *(
        Row(f"torch.optim.{name}", parameters, f"{SOURCE}{name.lower()}.py", MAKE)
        for name, parameters in CONSTRUCTORS.items()
    ),
    Row(f"{OPTIMIZER}.step", "closure=None", f"{SOURCE}optimizer.py", (Step(Receiver()),)),
    Row(
        "torch.optim.LBFGS.step",
        "closure",
        f"{SOURCE}lbfgs.py:326-357",
        (Step(Receiver()),),
        assumes=("the closure holds the whole window: it is called many times for one step",),
    ),
    Row(f"{OPTIMIZER}.zero_grad", "set_to_none=True", f"{SOURCE}optimizer.py", (Clear(Receiver()),)),
    Row(f"{OPTIMIZER}.add_param_group", "param_group", f"{SOURCE}optimizer.py", ()),
    Row(f"{OPTIMIZER}.state_dict", "", f"{SOURCE}optimizer.py", ()),
    Row(f"{OPTIMIZER}.load_state_dict", "state_dict", f"{SOURCE}optimizer.py", ()),
    Row(
        "torch.optim.swa_utils.AveragedModel",
        "model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False",
        f"{SOURCE}swa_utils.py",
        (Make(Role.MODEL),),
        assumes=("an averaged model is a copy without gradients of its own",),
    ),
    Row("torch.optim.swa_utils.AveragedModel.update_parameters", "model", f"{SOURCE}swa_utils.py", ()),
    Row("torch.optim.swa_utils.update_bn", "loader, model, device=None", f"{SOURCE}swa_utils.py", ()),
    Row(
        "torch.optim.swa_utils.SWALR",
        "optimizer, swa_lr, anneal_epochs=10, anneal_strategy='cos', last_epoch=-1",
        f"{SOURCE}swa_utils.py",
        (Make(Role.SCHEDULER, of=(Arg("optimizer"),)),),
    ),
    # An optimizer whose constructor nothing else is known of: the parameters come first.
    Row(
        "accumlint.AnyOptimizer",
        "params, *args, lr=None, **kwargs",
        "torch 2.13.0, optim/optimizer.py: the protocol of a subclass",
        (Make(Role.OPTIMIZER, of=(Arg("params"),), canonical=OPTIMIZER),),
        assumes=("the optimizer steps and clears as torch.optim.Optimizer does",),
    ),
    Row(
        "timm.optim.create_optimizer_v2",
        "model_or_params, opt='sgd', lr=None, weight_decay=0.0, momentum=0.9, foreach=None, filter_bias_and_bn=True, "
        "layer_decay=None, **kwargs",
        "timm 1.0, optim/_optim_factory.py",
        (Make(Role.OPTIMIZER, of=(Arg("model_or_params"),), canonical=OPTIMIZER),),
        aliases=("timm.optim.optim_factory.create_optimizer_v2",),
    ),
    Row(
        "timm.optim.create_optimizer",
        "args, model, filter_bias_and_bn=True",
        "timm 1.0, optim/_optim_factory.py",
        (Make(Role.OPTIMIZER, of=(Arg("model"),), canonical=OPTIMIZER),),
        aliases=("timm.optim.optim_factory.create_optimizer",),
    ),
    Row(
        "torch.distributed.optim.ZeroRedundancyOptimizer",
        "params, optimizer_class, process_group=None, parameters_as_bucket_view=False, overlap_with_ddp=False, "
        "**defaults",
        "torch 2.13.0, distributed/optim/zero_redundancy_optimizer.py",
        (Make(Role.OPTIMIZER, of=(Arg("params"),)),),
    ),
    Row(
        "torchao.optim.CPUOffloadOptimizer",
        "params, optimizer_class, *, offload_gradients=False, **kwargs",
        "torchao 0.13.0, optim/cpu_offload.py",
        (Make(Role.OPTIMIZER, of=(Arg("params"),), canonical=OPTIMIZER),),
    ),
    Row(
        "apex.contrib.optimizers.LARC",
        "optimizer, trust_coefficient=0.02, clip=True, eps=1e-8",
        "apex 0.1, parallel/LARC.py",
        (Wrap((Arg("optimizer"),), ((Role.OPTIMIZER, OPTIMIZER),)),),
        aliases=("apex.parallel.LARC",),
    ),
    Row("torch.optim.swa_utils.get_ema_avg_fn", "decay=0.999", f"{SOURCE}swa_utils.py", ()),
    Row("torch.optim.swa_utils.get_ema_multi_avg_fn", "decay=0.999", f"{SOURCE}swa_utils.py", ()),
    Row("torch.optim.Optimizer.train", "", "schedulefree 1.4, adamw_schedulefree.py", (Yields(Receiver()),)),
    Row("torch.optim.Optimizer.eval", "", "schedulefree 1.4, adamw_schedulefree.py", (Yields(Receiver()),)),
)

CLASSES = (
    ClassRow(OPTIMIZER, role=Role.OPTIMIZER, attributes=(("param_groups", Receiver()),)),
    *(ClassRow(f"torch.optim.{name}", bases=(OPTIMIZER,), role=Role.OPTIMIZER) for name in CONSTRUCTORS),
    ClassRow("torch.distributed.optim.ZeroRedundancyOptimizer", bases=(OPTIMIZER,), role=Role.OPTIMIZER),
    ClassRow("accumlint.AnyOptimizer", bases=(OPTIMIZER,), role=Role.OPTIMIZER),
    ClassRow("torch.optim.swa_utils.AveragedModel", bases=("torch.nn.Module",), role=Role.MODEL),
)

PATTERNS = tuple(
    PatternRow(pattern, "accumlint.AnyOptimizer")
    for pattern in (
        "torch.optim.[A-Z]*",
        "bitsandbytes.optim.[A-Z]*",
        "apex.optimizers.[A-Z]*",
        "apex.contrib.optimizers.[A-Z]*",
        "deepspeed.ops.adam.[A-Z]*",
        "deepspeed.ops.lamb.[A-Z]*",
        "deepspeed.ops.lion.[A-Z]*",
        "transformers.AdamW",
        "transformers.Adafactor",
        "timm.optim.[A-Z]*",
        "torch_optimizer.[A-Z]*",
        "pytorch_optimizer.[A-Z]*",
        "torchao.optim.[A-Z]*",
        "lion_pytorch.Lion",
        "schedulefree.[A-Z]*",
        "prodigyopt.Prodigy",
        "dadaptation.DAdapt*",
        "came_pytorch.CAME",
        "adabelief_pytorch.AdaBelief",
        "galore_torch.[A-Z]*",
        "muon.[A-Z]*Muon*",
        "radam.RAdam",
        "ranger.Ranger",
        "pytorch_pretrained_bert.optimization.BertAdam",
        "pytorch_transformers.AdamW",
    )
)

RENAMES = (
    *(Rename(f"torch.optim.{name.lower()}", "torch.optim") for name in CONSTRUCTORS if name != "Adafactor"),
    Rename("torch.optim._adafactor", "torch.optim"),
    Rename("torch.optim._muon", "torch.optim"),
    Rename("torch.optim.optimizer", "torch.optim"),
    Rename("torch.optim.sparse_adam", "torch.optim"),
    Rename("transformers.optimization", "transformers"),
    Rename("bitsandbytes.optim.adamw", "bitsandbytes.optim"),
    Rename("bitsandbytes.optim.adam", "bitsandbytes.optim"),
    Rename("lion_pytorch.lion_pytorch", "lion_pytorch"),
)
