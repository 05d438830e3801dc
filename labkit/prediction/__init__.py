"""From a few measured points to more workers: throughput, intervals, and what limits it."""

from labkit.prediction.predict import Forecast, Prediction, predict

__all__ = ["Forecast", "Prediction", "predict"]
