# torchmetrics: metrics of classification, regression, text and images, over batches, alone and in a collection.
import torch
from same import numbers, show

import torchmetrics as tm
import torchmetrics.classification as c
import torchmetrics.functional as F
import torchmetrics.image as image
import torchmetrics.regression as r
import torchmetrics.text as text

k = 4
scores = [numbers(20, k, seed=i).softmax(-1) for i in range(3)]
targets = [(numbers(20, seed=9 + i) * 50).long().abs() % k for i in range(3)]
kinds = [
    c.MulticlassAccuracy(k), c.MulticlassF1Score(k), c.MulticlassPrecision(k), c.MulticlassRecall(k, average="micro"),
    c.MulticlassAUROC(k), c.MulticlassAveragePrecision(k), c.MulticlassConfusionMatrix(k), c.MulticlassCohenKappa(k),
    c.MulticlassMatthewsCorrCoef(k), c.MulticlassCalibrationError(k), c.MulticlassJaccardIndex(k),
    c.MulticlassSpecificity(k), c.MulticlassHammingDistance(k), c.MulticlassHingeLoss(k),
]  # fmt: skip
for metric in kinds:
    for s, t in zip(scores, targets):
        metric.update(s, t)
    show(type(metric).__name__, *metric.compute().flatten())
binary = [c.BinaryAccuracy(), c.BinaryAUROC(), c.BinaryF1Score(), c.BinaryAveragePrecision(), c.BinaryConfusionMatrix()]
for metric in binary:
    for s, t in zip(scores, targets):
        metric.update(s[:, 0], (t > 1).long())
    show(type(metric).__name__, *metric.compute().flatten())
for metric in (
    r.MeanSquaredError(), r.MeanAbsoluteError(), r.R2Score(), r.PearsonCorrCoef(), r.SpearmanCorrCoef(),
    r.ExplainedVariance(), r.CosineSimilarity(), r.MeanAbsolutePercentageError(), r.ConcordanceCorrCoef(),
    r.LogCoshError(), r.SymmetricMeanAbsolutePercentageError(), r.KendallRankCorrCoef(),
):  # fmt: skip
    for i in range(3):
        a = numbers(20, seed=i) + 2
        b = a + numbers(20, scale=0.3, seed=i + 5)
        metric.update(*((a[None], b[None]) if isinstance(metric, r.CosineSimilarity) else (a, b)))
    show(type(metric).__name__, *metric.compute().flatten())
x, y = numbers(2, 3, 32, 32).abs(), numbers(2, 3, 32, 32, seed=3).abs()
show("ssim", image.StructuralSimilarityIndexMeasure(data_range=1.0)(x, y))
show("psnr", image.PeakSignalNoiseRatio(data_range=1.0)(x, y))
show("uqi", image.UniversalImageQualityIndex()(x, y))
show("variation", image.TotalVariation()(x))
show("bleu", text.BLEUScore(2)(["a cat is on the mat"], [["a cat sits on the mat", "the cat is on a mat"]]))
show("wer", text.WordErrorRate()(["hello big world"], ["hello small world"]))
show("edit", text.EditDistance()(["rain"], ["shine"]))
show("perplexity", text.Perplexity()(numbers(2, 5, 7).softmax(-1), torch.arange(10).reshape(2, 5) % 7))
every = tm.MetricCollection(
    {"mean": tm.MeanMetric(), "max": tm.MaxMetric(), "sum": tm.SumMetric(), "min": tm.MinMetric()}
)
for i in range(4):
    every.update(numbers(5, seed=i))
print({name: round(float(v), 5) for name, v in sorted(every.compute().items())})
every.reset()
tracker = tm.MetricTracker(c.MulticlassAccuracy(k))
for s, t in zip(scores, targets):
    tracker.increment()
    tracker.update(s, t)
show("best", tracker.best_metric())
boot = tm.functional.pairwise_cosine_similarity(numbers(4, 3), numbers(5, 3, seed=1))
show("pairwise", *boot.flatten())
show("dice", F.dice(scores[0], targets[0]) if hasattr(F, "dice") else 0)
state = kinds[0].state_dict(), kinds[0].metric_state
print(sorted(state[1]))
