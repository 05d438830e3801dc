"""From a few measured points to more workers: throughput, intervals, and what limits it."""

from labkit.prediction.forecast import Forecast, Forecasts
from labkit.prediction.predict import Prediction, predict

__all__ = ["Forecast", "Forecasts", "Prediction", "predict"]
