# mechanism: one model, optimizer and schedule for each of several objectives, kept in lists and taken by index
# expect: nothing
import torch


def fit(objectives, epochs, steps, evaluate_every, make, limit):
    models = [model for _, model in objectives]
    optimizers = []
    for model in models:
        weights = [weight for name, weight in model.named_parameters() if "bias" not in name]
        optimizers.append(make([{"params": weights, "weight_decay": 0.01}]))
    streams = [iter(loader) for loader, _ in objectives]
    scaler = torch.amp.GradScaler()
    for _ in range(epochs):
        done = 0
        for model in models:
            model.zero_grad()
        for _ in range(steps):
            for index in range(len(objectives)):
                model, optimizer = models[index], optimizers[index]
                rows, labels = next(streams[index])
                with torch.autocast("cuda"):
                    loss = model(rows, labels)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            done += 1
            if evaluate_every > 0 and done % evaluate_every == 0:
                for model in models:
                    model.zero_grad()
