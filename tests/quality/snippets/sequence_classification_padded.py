# mechanism: a sequence-classification head has one target a row: padded inputs do not make counts differ
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("tiny")


def collate_fn(rows):
    return tokenizer.pad(rows, padding="longest", return_tensors="pt")


def fit(rows, steps, epochs):
    loader = DataLoader(rows, shuffle=True, collate_fn=collate_fn, batch_size=16)
    model = AutoModelForSequenceClassification.from_pretrained("tiny")
    optimizer = AdamW(model.parameters(), lr=1e-4)
    for _ in range(epochs):
        for index, batch in enumerate(loader):
            loss = model(**batch).loss / steps
            loss.backward()  # expect: ACC102, ACC107
            if (index + 1) % steps == 0 or index + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
