# mechanism: CTC's mean divides by the rows, so only the short last batch makes the counts differ
import torch
from torch import nn
from torch.utils.data import DataLoader


class SpeechTrainer:
    def __init__(self, encoder, dataset, collate, batch_size, accum):
        self.encoder = encoder
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, collate_fn=collate, drop_last=False)
        self.ctc = nn.CTCLoss(blank=0, zero_infinity=True)
        self.accum = accum
        self.optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)

    def epoch(self):
        usable = (len(self.loader) // self.accum) * self.accum
        order = iter(self.loader)
        for start in range(0, usable + 1, self.accum):
            size = min(self.accum, len(self.loader) - start)
            if size == 0:
                break
            for _ in range(size):
                audio, audio_len, text, text_len = next(order)
                log_probs = self.encoder(audio).log_softmax(-1).transpose(0, 1)
                loss = self.ctc(log_probs, text, audio_len, text_len)
                (loss / size).backward()  # expect: ACC102
            self.optimizer.step()
            self.optimizer.zero_grad()
