# skorch: classifiers and regressors as scikit-learn's: fit, callbacks, a pipeline, a search, saved parameters.
import tempfile

import numpy as np
import torch
from same import fill, numbers, show
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, GradientNormClipping, LRScheduler
from skorch.dataset import ValidSplit

x = numbers(60, 5).numpy()
y = (np.arange(60) % 3).astype("int64")


class Net(nn.Module):
    def __init__(self, width=8, out=3):
        super().__init__()
        self.net = fill(nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, out)))

    def forward(self, x):
        return self.net(x)


common = dict(max_epochs=4, lr=0.1, batch_size=15, verbose=0, iterator_train__shuffle=False)
net = NeuralNetClassifier(
    Net, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam, train_split=ValidSplit(3, stratified=False),
    callbacks=[EarlyStopping(patience=5), GradientNormClipping(1.0), EpochScoring("accuracy", name="right"),
               LRScheduler("StepLR", step_size=2)], **common,
)  # fmt: skip
net.fit(x, y)
for row in net.history:
    show("epoch", row["epoch"], row["train_loss"], row["valid_loss"], row["right"], row["valid_acc"])
show("probabilities", *net.predict_proba(x[:2]).ravel()[:6])
with tempfile.TemporaryDirectory() as folder:
    net.save_params(f_params=f"{folder}/p.pt", f_optimizer=f"{folder}/o.pt", f_history=f"{folder}/h.json")
    again = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam, **common).initialize()
    again.load_params(f_params=f"{folder}/p.pt", f_optimizer=f"{folder}/o.pt", f_history=f"{folder}/h.json")
    print((again.predict(x) == net.predict(x)).all())
    saver = Checkpoint(dirname=folder, monitor=None)
    NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, callbacks=[saver], **common).fit(x, y)
pipe = Pipeline(
    [("scale", StandardScaler()), ("net", NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, **common))]
)
show("pipeline", pipe.fit(x, y).score(x, y))
search = GridSearchCV(
    NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, train_split=False, **common),
    {"lr": [0.01, 0.3], "module__width": [4, 16]}, cv=3, scoring="neg_log_loss", refit=False,
)  # fmt: skip
search.fit(x, y)
show("search", *search.cv_results_["mean_test_score"])
regressor = NeuralNetRegressor(Net, module__out=1, train_split=False, **common)
regressor.fit(x, numbers(60, 1, seed=3).numpy())
show("regressor", regressor.history[-1]["train_loss"], *regressor.predict(x[:2]).ravel())
