"""Backward passes, gradient mode, checkpointing and the parts of torch.nn.Module that touch gradients."""

from accumlint.apis.language import (
    Arg,
    Backward,
    ClassRow,
    Clear,
    Const,
    Exempt,
    Is,
    Make,
    NoGrad,
    Receiver,
    Rename,
    Role,
    Row,
    Same,
    SetMode,
    Wrap,
    Yields,
)

MODULE = "torch.nn.Module"
GRAD_MODE = "torch 2.13.0, autograd/grad_mode.py"
NN_MODULE = "torch 2.13.0, nn/modules/module.py"

ROWS = (
    Row(
        "torch.autograd.backward",
        "tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None",
        "torch 2.13.0, autograd/__init__.py",
        (Backward(Arg("tensors")),),
    ),
    Row(  # returns gradients, stores none
        "torch.autograd.grad",
        "outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, "
        "allow_unused=None, is_grads_batched=False, materialize_grads=False",
        "torch 2.13.0, autograd/__init__.py",
        (Exempt("it differentiates through its own gradients", when=(Is(Arg("create_graph"), True),)),),
    ),
    Row("torch.no_grad", "", GRAD_MODE, (NoGrad(),), aliases=("torch.autograd.no_grad",)),
    Row("torch.enable_grad", "", GRAD_MODE, (), aliases=("torch.autograd.enable_grad",)),
    Row(
        "torch.inference_mode",
        "mode=True",
        GRAD_MODE,
        (NoGrad(when=(Is(Arg("mode"), True, unknown=True),)),),
        aliases=("torch.autograd.inference_mode",),
    ),
    Row(
        "torch.set_grad_enabled",
        "mode",
        GRAD_MODE,
        (NoGrad(when=(Is(Arg("mode"), False),)),),
        aliases=("torch.autograd.set_grad_enabled",),
    ),
    Row("torch.autograd.set_detect_anomaly", "mode, check_nan=True", "torch 2.13.0, autograd/anomaly_mode.py", ()),
    Row("torch.autograd.detect_anomaly", "check_nan=True", "torch 2.13.0, autograd/anomaly_mode.py", ()),
    Row(
        "torch.compile",
        "model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None, "
        "disable=False, recompile_limit=None, isolate_recompiles=False, shapes_spec=None",
        "torch 2.13.0, __init__.py",
        (Yields(Arg("model")),),
    ),
    Row("torch.manual_seed", "seed", "torch 2.13.0, random.py", ()),
    Row(f"{MODULE}.zero_grad", "set_to_none=True", NN_MODULE, (Clear(Receiver()),)),
    Row(
        f"{MODULE}.parameters",
        "recurse=True",
        NN_MODULE,
        (Make(Role.PARAMETERS, of=(Receiver(),)),),
    ),
    Row(
        f"{MODULE}.named_parameters",
        "prefix='', recurse=True, remove_duplicate=True",
        NN_MODULE,
        (Make(Role.PARAMETERS, of=(Receiver(),), attributes=(("named", Const(True)),)),),
    ),
    Row(f"{MODULE}.train", "mode=True", NN_MODULE, (SetMode(Receiver(), Arg("mode")), Yields(Receiver()))),
    Row(f"{MODULE}.eval", "", NN_MODULE, (SetMode(Receiver(), Const(False)), Yields(Receiver()))),
    Row(f"{MODULE}.to", "*args, **kwargs", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.cuda", "device=None", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.cpu", "", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.half", "", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.float", "", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.double", "", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.bfloat16", "", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.requires_grad_", "requires_grad=True", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.apply", "fn", NN_MODULE, (Yields(Receiver()),)),
    Row(f"{MODULE}.compile", "*args, **kwargs", NN_MODULE, ()),
    Row(f"{MODULE}.state_dict", "*args, destination=None, prefix='', keep_vars=False", NN_MODULE, ()),
    Row(f"{MODULE}.load_state_dict", "state_dict, strict=True, assign=False", NN_MODULE, ()),
    Row(
        "torch.utils.checkpoint.checkpoint_sequential",
        "functions, segments, input, use_reentrant=None, **kwargs",
        "torch 2.13.0, utils/checkpoint.py",
        (Same(Arg("input")),),
    ),
    Row(
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "module, process_group=None",
        "torch 2.13.0, nn/modules/batchnorm.py",
        (Yields(Arg("module")),),
    ),
    Row(
        "peft.get_peft_model",
        "model, peft_config, adapter_name='default', mixed=False, autocast_adapter_dtype=True, revision=None, "
        "low_cpu_mem_usage=False",
        "peft 0.18.0, mapping_func.py",
        (Wrap((Arg("model"),), ((Role.MODEL, MODULE),)),),
    ),
)

CLASSES = (ClassRow(MODULE, role=Role.MODEL),)

RENAMES = (
    Rename("torch.autograd.grad_mode", "torch"),
    Rename("torch.autograd.anomaly_mode", "torch.autograd"),
    Rename("torch.nn.modules.Module", "torch.nn.Module"),
    Rename("torch.nn.modules.batchnorm", "torch.nn"),
)
