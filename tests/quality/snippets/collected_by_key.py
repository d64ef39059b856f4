# mechanism: a loop that collects what another one backpropagates is not cut short, whatever its data pass through
import torch


def cached_contrast(model, loader, loss_of, optimizer, args):
    images, texts, kept = [], [], {}
    for i, (image, text) in enumerate(loader):
        optimizer.zero_grad()
        with torch.no_grad():
            for name, feature in model(image, text).items():
                if name in kept:
                    kept[name].append(feature)
                else:
                    kept[name] = [feature]
            images.append(image)
            texts.append(text)
        if ((i + 1) % args.accum) > 0:
            continue
        optimizer.zero_grad()
        for j in range(args.accum):
            out = model(images[j], texts[j])
            temperature = out.pop("temperature")
            joined = {name: torch.cat(old[:j] + [out[name]] + old[j + 1 :]) for name, old in kept.items()}
            sum(loss_of(**joined, temperature=temperature).values()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        images, texts, kept = [], [], {}


def clipped_between(model, loader, loss_of, optimizer, args):
    images, texts, kept = [], [], {}
    for i, (image, text) in enumerate(loader):
        with torch.no_grad():
            for name, feature in model(image, text).items():
                if name in kept:
                    kept[name].append(feature)
                else:
                    kept[name] = [feature]
            images.append(image)
            texts.append(text)
        if ((i + 1) % args.accum) > 0:
            continue
        optimizer.zero_grad()
        for j in range(args.accum):
            out = model(images[j], texts[j])
            temperature = out.pop("temperature")
            joined = {name: torch.cat(old[:j] + [out[name]] + old[j + 1 :]) for name, old in kept.items()}
            sum(loss_of(**joined, temperature=temperature).values()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC201
        optimizer.step()
        images, texts, kept = [], [], {}
