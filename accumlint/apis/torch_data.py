"""torch.utils.data: loaders, what bounds their batches, samplers and datasets."""

from accumlint.apis.language import Arg, ClassRow, Const, Effect, Forget, Make, Operand, Rename, Role, Row, Same

DATASET = "torch.utils.data.Dataset"
LOADER = "torch.utils.data.DataLoader"
DATASET_SOURCE = "torch 2.13.0, utils/data/dataset.py"
SAMPLER_SOURCE = "torch 2.13.0, utils/data/sampler.py"
LOADER_SOURCE = "torch 2.13.0, utils/data/dataloader.py"


def made(role: Role, *of: str, **attributes: Operand) -> tuple[Effect, ...]:
    return (Make(role, of=tuple(Arg(name) for name in of), attributes=tuple(attributes.items())),)


DATASETS = {
    "TensorDataset": ("*tensors", made(Role.DATASET, "*tensors")),
    "Subset": ("dataset, indices", made(Role.DATASET, "dataset")),
    "ConcatDataset": ("datasets", made(Role.DATASET, "datasets")),
    "ChainDataset": ("datasets", made(Role.DATASET, "datasets", finite=Const(None))),
    "StackDataset": ("*args, **kwargs", made(Role.DATASET, "*args")),
}
SAMPLERS = {
    "RandomSampler": ("data_source, replacement=False, num_samples=None, generator=None", ("data_source",)),
    "SequentialSampler": ("data_source", ("data_source",)),
    "WeightedRandomSampler": ("weights, num_samples, replacement=True, generator=None", ()),
    "SubsetRandomSampler": ("indices, generator=None", ()),
}

ROWS = (
    Row(
        LOADER,
        "dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, "
        "pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, "
        "generator=None, *, prefetch_factor=None, persistent_workers=False, pin_memory_device='', in_order=True",
        LOADER_SOURCE,
        made(
            Role.LOADER,
            "dataset",
            dataset=Arg("dataset"),
            batch_size=Arg("batch_size"),
            drop_last=Arg("drop_last"),
            collate_fn=Arg("collate_fn"),
            sampler=Arg("sampler"),
            batch_sampler=Arg("batch_sampler"),
            shuffle=Arg("shuffle"),
            finite=Const(True),
        ),
        assumes=("a loader is finite: its dataset is not an endless stream",),
    ),
    *(Row(f"torch.utils.data.{name}", given, DATASET_SOURCE, does) for name, (given, does) in DATASETS.items()),
    *(
        Row(f"torch.utils.data.{name}", given, SAMPLER_SOURCE, made(Role.DATASET, *of))
        for name, (given, of) in SAMPLERS.items()
    ),
    Row(
        "torch.utils.data.BatchSampler",
        "sampler, batch_size, drop_last",
        SAMPLER_SOURCE,
        made(Role.DATASET, "sampler", batch_size=Arg("batch_size"), drop_last=Arg("drop_last")),
    ),
    Row(
        "torch.utils.data.DistributedSampler",
        "dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False",
        "torch 2.13.0, utils/data/distributed.py",
        made(Role.DATASET, "dataset", ranks_drop_last=Arg("drop_last")),
        aliases=("torch.utils.data.distributed.DistributedSampler",),
    ),
    Row(
        "torch.utils.data.DistributedSampler.set_epoch",
        "epoch",
        "torch 2.13.0, utils/data/distributed.py",
        (),
    ),
    Row("torch.utils.data.random_split", "dataset, lengths, generator=...", DATASET_SOURCE, (Forget(),)),
    Row(
        "torch.utils.data.default_collate", "batch", "torch 2.13.0, utils/data/_utils/collate.py", (Same(Arg("batch")),)
    ),
    Row("torch.utils.data.get_worker_info", "", "torch 2.13.0, utils/data/_utils/worker.py", ()),
)

CLASSES = (
    ClassRow(DATASET, role=Role.DATASET),
    ClassRow(
        "torch.utils.data.IterableDataset", bases=(DATASET,), role=Role.DATASET, attributes=(("finite", Const(None)),)
    ),
    *(ClassRow(f"torch.utils.data.{name}", bases=(DATASET,), role=Role.DATASET) for name in DATASETS),
    ClassRow(
        LOADER,
        role=Role.LOADER,
        attributes=(("drop_last", Const(False)), ("finite", Const(True))),
        aliases=("torchdata.stateful_dataloader.StatefulDataLoader", "torch_geometric.loader.DataLoader"),
    ),
)

RENAMES = (
    Rename("torch.utils.data.dataloader", "torch.utils.data"),
    Rename("torch.utils.data.dataset", "torch.utils.data"),
    Rename("torch.utils.data.sampler", "torch.utils.data"),
)
