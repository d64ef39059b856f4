"""Records for `test_torch_rows`: one a torch row, with the code that performs the call and what is true afterwards.

The names in the code are those that `test_torch_rows` sets up: a model `net` with one parameter `w`, its `loss()`,
`before` and `start` (gradient and parameter), data `x`, `a`, `b`, and an optimizer and scaler.
"""

from accumlint.apis.registry import load

ROWS = {row.call: row for row in load().rows() if row.source.startswith("torch 2.13.0")}

SGD, DDP, SCALER = "torch.optim.Optimizer", "torch.nn.parallel.DistributedDataParallel", "torch.amp.GradScaler"
OPTIMIZERS = [c for c, r in ROWS.items() if c.startswith("torch.optim.") and c.count(".") == 2]
SCHEDULER_ARGUMENTS = {
    "ChainedScheduler": "[torch.optim.lr_scheduler.ConstantLR(opt)]",
    "CosineAnnealingLR": "opt, 3",
    "CosineAnnealingWarmRestarts": "opt, 3",
    "CyclicLR": "opt, 0.1, 0.2, cycle_momentum=False",
    "ExponentialLR": "opt, 0.9",
    "LambdaLR": "opt, lambda k: 0.9",
    "MultiStepLR": "opt, [2]",
    "MultiplicativeLR": "opt, lambda k: 0.9",
    "OneCycleLR": "opt, 0.1, 9, cycle_momentum=False",
    "SequentialLR": "opt, [torch.optim.lr_scheduler.ConstantLR(opt)], []",
    "StepLR": "opt, 2",
}
TWICE = "torch.allclose(w.grad, 2 * before)"
ONCE = "torch.allclose(w.grad, before)"
CLEARED = "w.grad is None or not w.grad.any()"
MOVED = "not torch.allclose(w, start)"
NORM = "(w.grad.norm() - 0.1).abs() < 1e-4"

RUNS: list[tuple[str, str, str]] = [
    # Backward passes and gradient mode. `before` is the gradient of the loss, already in w.grad.
    ("torch.Tensor.backward", "loss().backward()", TWICE),
    ("torch.autograd.backward", "torch.autograd.backward(loss())", TWICE),
    ("torch.autograd.grad", "torch.autograd.grad(loss(), w)", ONCE),
    ("torch.no_grad", "with torch.no_grad(): r = loss().requires_grad", "not r"),
    ("torch.inference_mode", "with torch.inference_mode(): r = loss().requires_grad", "not r"),
    ("torch.set_grad_enabled", "with torch.set_grad_enabled(False): r = loss().requires_grad", "not r"),
    ("torch.compile", "r = torch.compile(net, backend='eager')", "list(r.parameters())[0] is w"),
    (
        "torch.utils.checkpoint.checkpoint_sequential",
        "r = torch.utils.checkpoint.checkpoint_sequential([net], 1, x, use_reentrant=False)",
        "torch.equal(r, net(x))",
    ),
    (
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "r = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)",
        "r is net",
    ),
    # Modules.
    ("torch.nn.Module.zero_grad", "net.zero_grad()", CLEARED),
    ("torch.nn.Module.parameters", "r = list(net.parameters())", "r[0] is w"),
    ("torch.nn.Module.named_parameters", "r = list(net.named_parameters())", "r[0][1] is w"),
    *(
        (f"torch.nn.Module.{name}", f"r = net.{name}({given})", "r is net")
        for name, given in (
            ("train", ""),
            ("eval", ""),
            ("to", "'cpu'"),
            ("cpu", ""),
            ("half", ""),
            ("float", ""),
            ("double", ""),
            ("bfloat16", ""),
            ("requires_grad_", ""),
            ("apply", "lambda m: None"),
        )
    ),
    # Optimizers and schedulers.
    (f"{SGD}.step", "opt.step()", MOVED),
    (f"{SGD}.zero_grad", "opt.zero_grad()", CLEARED),
    (SGD, "r = torch.optim.Optimizer([w], {})", "r.param_groups[0]['params'][0] is w"),
    (
        "torch.optim.LBFGS.step",
        "torch.optim.LBFGS([w]).step(lambda: (net.zero_grad(), loss().backward(), loss())[2])",
        MOVED,
    ),
    *(
        (
            call,
            f"r = {call}([w], lr=0.5)",
            "r.param_groups[0]['params'][0] is w and isinstance(r, torch.optim.Optimizer)"
            " and r.param_groups[0]['lr'] == 0.5",
        )
        for call in OPTIMIZERS
        if call != SGD
    ),
    (
        "torch.optim.swa_utils.AveragedModel",
        "r = torch.optim.swa_utils.AveragedModel(net)",
        "all(p.grad is None for p in r.parameters())",
    ),
    ("torch.optim.swa_utils.SWALR", "r = torch.optim.swa_utils.SWALR(opt, 0.1)", "r.optimizer is opt"),
    *(
        (
            call,
            f"r = {call}({SCHEDULER_ARGUMENTS.get(call.rpartition('.')[2], 'opt')})",
            "isinstance(r, torch.optim.lr_scheduler.LRScheduler) and r.optimizer is opt",
        )
        for call in ROWS
        if call.startswith("torch.optim.lr_scheduler.")
        and call.count(".") == 3
        and call.rpartition(".")[2] != "LRScheduler"
    ),
    (
        "torch.optim.lr_scheduler.LRScheduler.step",
        "r = torch.optim.lr_scheduler.StepLR(opt, 2); e = r.last_epoch; r.step()",
        "r.last_epoch == e + 1",
    ),
    (
        "torch.optim.lr_scheduler.ReduceLROnPlateau.step",
        "r = torch.optim.lr_scheduler.ReduceLROnPlateau(opt); e = r.last_epoch; r.step(1.0)",
        "r.last_epoch == e + 1",
    ),
    # Scaler.
    (SCALER, "r = torch.amp.GradScaler('cpu')", "r.is_enabled()"),
    ("torch.cuda.amp.GradScaler", "r = torch.cuda.amp.GradScaler(enabled=False)", "not r.is_enabled()"),
    (f"{SCALER}.scale", "r = scaler.scale(loss())", "torch.allclose(r, 8 * loss())"),
    (f"{SCALER}.unscale_", "w.grad.mul_(8); scaler.scale(loss()); scaler.unscale_(opt)", ONCE),
    (
        f"{SCALER}.step",
        "w.grad.mul_(8); scaler.scale(loss()); scaler.step(opt)",
        f"{ONCE} and torch.allclose(w, start - 0.1 * before)",
    ),
    (
        f"{SCALER}.update",
        "scaler.scale(loss()); scaler.step(opt); e = scaler._growth_tracker.item(); scaler.update()",
        "scaler._growth_tracker.item() == e + 1",
    ),
    # Clips.
    ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_([w], 0.1)", NORM),
    ("torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad_norm([w], 0.1)", NORM),
    ("torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_value_([w], 0.1)", "w.grad.abs().max() <= 0.1"),
    ("torch.nn.utils.clip_grads_with_norm_", "torch.nn.utils.clip_grads_with_norm_([w], 0.1, w.grad.norm())", NORM),
    # Wrapped models and ranks; one rank on gloo.
    ("torch.nn.DataParallel", "r = torch.nn.DataParallel(net)", "r.module is net"),
    (DDP, "r = DDP(net)", "r.module is net and r.require_backward_grad_sync"),
    (
        f"{DDP}.no_sync",
        "d = DDP(net)\nwith d.no_sync(): r = d.require_backward_grad_sync",
        "not r and d.require_backward_grad_sync",
    ),
    (
        f"{DDP}.require_backward_grad_sync.__set__",
        "r = DDP(net); r.require_backward_grad_sync = False",
        "not r.require_backward_grad_sync",
    ),
    ("torch.distributed.all_reduce", "n = torch.tensor(3.); r = torch.distributed.all_reduce(n)", "n == 3 and not r"),
    ("torch.distributed.reduce", "n = torch.tensor(3.); torch.distributed.reduce(n, 0)", "n == 3"),
    (
        "torch.distributed.nn.all_reduce",
        "import torch.distributed.nn; n = torch.tensor(3.); r = torch.distributed.nn.all_reduce(n)",
        "r == 3",
    ),
    ("torch.distributed.get_world_size", "r = torch.distributed.get_world_size()", "r == 1"),
    (
        "torch.distributed.optim.ZeroRedundancyOptimizer",
        "from torch.distributed.optim import ZeroRedundancyOptimizer as Z; r = Z([w], torch.optim.SGD, lr=0.5)",
        "r.param_groups[0]['params'][0] is w",
    ),
    # Data.
    (
        "torch.utils.data.DataLoader",
        "r = torch.utils.data.DataLoader(data, 2, drop_last=True)",
        "r.dataset is data and r.batch_size == 2 and r.drop_last",
    ),
    ("torch.utils.data.TensorDataset", "r = torch.utils.data.TensorDataset(x)", "len(r) == len(x)"),
    ("torch.utils.data.Subset", "r = torch.utils.data.Subset(data, [0])", "r.dataset is data"),
    ("torch.utils.data.ConcatDataset", "r = torch.utils.data.ConcatDataset([data])", "r.datasets[0] is data"),
    ("torch.utils.data.ChainDataset", "r = torch.utils.data.ChainDataset([data])", "r.datasets[0] is data"),
    ("torch.utils.data.StackDataset", "r = torch.utils.data.StackDataset(data)", "len(r) == len(data)"),
    ("torch.utils.data.RandomSampler", "r = torch.utils.data.RandomSampler(data)", "len(r) == len(data)"),
    ("torch.utils.data.SequentialSampler", "r = torch.utils.data.SequentialSampler(data)", "len(r) == len(data)"),
    (
        "torch.utils.data.WeightedRandomSampler",
        "r = torch.utils.data.WeightedRandomSampler([1., 1.], 2)",
        "len(r) == 2",
    ),
    ("torch.utils.data.SubsetRandomSampler", "r = torch.utils.data.SubsetRandomSampler([1])", "len(r) == 1"),
    ("torch.utils.data.BatchSampler", "r = torch.utils.data.BatchSampler([0, 1, 2], 2, True)", "r.drop_last"),
    ("torch.utils.data.DistributedSampler", "r = torch.utils.data.DistributedSampler(data, 1, 0)", "r.dataset is data"),
    ("torch.utils.data.default_collate", "r = torch.utils.data.default_collate([x[0], x[1]])", "torch.equal(r, x[:2])"),
    # Tensors: what is the same, what is a number, what is an operator.
    *(
        (
            f"torch.Tensor.{name}",
            f"r = x.{name}({given})",
            f"r.numel() == x.numel() and torch.allclose(r.sum().double(), x{conversion}.sum().double(), atol=1e-2)",
        )
        for name, given, conversion in (
            ("to", "'cpu'", ""),
            ("cpu", "", ""),
            ("float", "", ""),
            ("double", "", ""),
            ("half", "", ""),
            ("bfloat16", "", ".bfloat16()"),
            ("long", "", ".long()"),
            ("int", "", ".int()"),
            ("bool", "", ".bool()"),
            ("type", "torch.float64", ""),
            ("type_as", "x", ""),
            ("view", "-1", ""),
            ("view_as", "x", ""),
            ("reshape", "-1", ""),
            ("reshape_as", "x", ""),
            ("flatten", "", ""),
            ("unflatten", "1, (3, 1)", ""),
            ("squeeze", "", ""),
            ("unsqueeze", "0", ""),
            ("transpose", "0, 1", ""),
            ("permute", "1, 0", ""),
            ("movedim", "0, 1", ""),
            ("t", "", ""),
            ("contiguous", "", ""),
            ("clone", "", ""),
            ("requires_grad_", "", ""),
            ("nan_to_num", "", ""),
        )
    ),
    *(
        (f"torch.Tensor.{name}", f"y = x.clone(); r = y.{name}({given})", "r.numel() == x.numel()")
        for name, given in (("squeeze_", ""), ("unsqueeze_", "0"))
    ),
    *(
        (f"torch.{name}", f"r = torch.{name}(x{given})", "r.numel() == x.numel() and torch.equal(r.sum(), x.sum())")
        for name, given in (
            ("squeeze", ""),
            ("unsqueeze", ", 0"),
            ("reshape", ", (-1,)"),
            ("flatten", ""),
            ("transpose", ", 0, 1"),
            ("as_tensor", ""),
            ("nan_to_num", ""),
        )
    ),
    ("torch.tensor", "r = torch.tensor([1., 2.])", "r.tolist() == [1, 2]"),
    ("torch.from_numpy", "r = torch.from_numpy(x.numpy())", "torch.equal(r, x)"),
    ("torch.detach", "r = torch.detach(loss())", "not r.requires_grad and r == loss()"),
    ("torch.Tensor.item", "r = loss().item()", "r == float(loss())"),
    ("torch.Tensor.detach", "r = loss().detach()", "not r.requires_grad and r == loss()"),
    ("torch.Tensor.detach_", "r = loss().detach_()", "not r.requires_grad"),
    ("torch.Tensor.tolist", "r = x.tolist()", "r == [list(row) for row in x.numpy().tolist()]"),
    ("torch.Tensor.numpy", "r = x.numpy()", "r.sum() == x.sum().item()"),
    *(
        (f"torch.Tensor.{name}", f"r = a.{name}(b)", f"torch.equal(r, a {sign} b)")
        for name, sign in (
            ("add", "+"),
            ("sub", "-"),
            ("subtract", "-"),
            ("mul", "*"),
            ("multiply", "*"),
            ("div", "/"),
            ("divide", "/"),
            ("true_divide", "/"),
            ("floor_divide", "//"),
            ("remainder", "%"),
            ("pow", "**"),
            ("ne", "!="),
            ("not_equal", "!="),
            ("eq", "=="),
            ("lt", "<"),
            ("less", "<"),
            ("le", "<="),
            ("gt", ">"),
            ("greater", ">"),
            ("ge", ">="),
        )
    ),
    *(
        (f"torch.{name}", f"r = torch.{name}(a, b)", f"torch.equal(r, a {sign} b)")
        for name, sign in (
            ("add", "+"),
            ("sub", "-"),
            ("subtract", "-"),
            ("mul", "*"),
            ("multiply", "*"),
            ("div", "/"),
            ("divide", "/"),
            ("true_divide", "/"),
            ("floor_divide", "//"),
            ("remainder", "%"),
            ("pow", "**"),
            ("ne", "!="),
            ("not_equal", "!="),
            ("eq", "=="),
            ("lt", "<"),
            ("less", "<"),
            ("le", "<="),
            ("gt", ">"),
            ("greater", ">"),
            ("ge", ">="),
        )
    ),
    *(
        (f"{owner}.{name}", f"r = {call}", f"torch.equal(r, (a > 2) {sign} (b > 2))")
        for name, sign in (("logical_and", "&"), ("logical_or", "|"))
        for owner, call in (("torch.Tensor", f"(a > 2).{name}(b > 2)"), ("torch", f"torch.{name}(a > 2, b > 2)"))
    ),
    ("torch.Tensor.neg", "r = a.neg()", "torch.equal(r, -a)"),
    ("torch.Tensor.add_", "r = a.clone(); r.add_(b)", "torch.equal(r, a + b)"),
    ("torch.Tensor.sub_", "r = a.clone(); r.sub_(b)", "torch.equal(r, a - b)"),
    ("torch.Tensor.mul_", "w.grad.mul_(2)", TWICE),
    ("torch.Tensor.multiply_", "w.grad.multiply_(2)", TWICE),
    ("torch.Tensor.div_", "w.grad.div_(0.5)", TWICE),
    ("torch.Tensor.true_divide_", "w.grad.true_divide_(0.5)", TWICE),
    ("torch.Tensor.zero_", "w.grad.zero_()", CLEARED),
    ("torch._foreach_mul_", "torch._foreach_mul_([w.grad], 2)", TWICE),
    ("torch._foreach_div_", "torch._foreach_div_([w.grad], 0.5)", TWICE),
    ("torch._foreach_zero_", "torch._foreach_zero_([w.grad])", CLEARED),
    ("torch.Tensor.numel", "r = x.numel()", "r == 12"),
    ("torch.Tensor.nelement", "r = x.nelement()", "r == 12"),
    ("torch.numel", "r = torch.numel(x)", "r == 12"),
    ("torch.Tensor.size", "r = x.size(0)", "r == len(x)"),
    ("torch.Tensor.__len__", "r = len(x)", "r == 4"),
    ("torch.Tensor.count_nonzero", "r = (a > 2).count_nonzero()", "r == (a > 2).sum()"),
    ("torch.count_nonzero", "r = torch.count_nonzero(a > 2)", "r == (a > 2).sum()"),
    *(
        (f"{owner}.{name}", f"r = {call}", f"torch.allclose(r, x.{'mean' if 'mean' in name else 'sum'}())")
        for name in ("sum", "mean", "nansum", "nanmean")
        for owner, call in (("torch.Tensor", f"x.{name}()"), ("torch", f"torch.{name}(x)"))
    ),
    *(
        (f"{owner}.{name}", f"r = {call}", "r.min() >= 2 and r.max() <= 3")
        for name in ("clamp", "clip")
        for owner, call in (("torch.Tensor", f"a.{name}(2, 3)"), ("torch", f"torch.{name}(a, 2, 3)"))
    ),
    ("torch.Tensor.clamp_min", "r = a.clamp_min(2)", "r.min() == 2"),
    ("torch.Tensor.clamp_max", "r = a.clamp_max(2)", "r.max() == 2"),
    ("torch.Tensor.maximum", "r = a.maximum(b)", "(r >= a).all() and (r >= b).all()"),
    ("torch.Tensor.minimum", "r = a.minimum(b)", "(r <= a).all() and (r <= b).all()"),
    ("torch.maximum", "r = torch.maximum(a, b)", "(r >= a).all() and (r >= b).all()"),
    ("torch.minimum", "r = torch.minimum(a, b)", "(r <= a).all() and (r <= b).all()"),
    *(
        (f"torch.{name}", f"r = torch.{name}({given}); s = torch.{name}({given})", "not torch.equal(r, s)")
        for name, given in (
            ("rand", "9"),
            ("randn", "9"),
            ("randint", "10**6, (9,)"),
            ("randperm", "99"),
            ("rand_like", "x"),
            ("randn_like", "x"),
            ("randint_like", "x, 10**6"),
            ("normal", "x, 1.0"),
            ("bernoulli", "torch.full((99,), 0.5)"),
            ("multinomial", "torch.ones(99), 20"),
        )
    ),
    *(
        (f"torch.Tensor.{name}", f"r = x.clone().{name}()", "not torch.equal(r, x)")
        for name in ("random_", "normal_", "uniform_")
    ),
    *(
        (f"{owner}.{name}", f"r = {call}; s = torch.cat(r)", f"len(r) == {parts} and torch.equal(s, x)")
        for name, number, parts in (("chunk", 4, 4), ("tensor_split", 3, 3), ("split", 3, 2))
        for owner, call in (("torch.Tensor", f"x.{name}({number})"), ("torch", f"torch.{name}(x, {number})"))
    ),
]
