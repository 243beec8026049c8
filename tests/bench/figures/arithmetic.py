"""Ratios of paired samples and their spread. Knows samples of records; nothing of how they are shown."""
import statistics


def quartiles(values):
    """Lower quartile, median, upper quartile, interpolated between the values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, statistics.median(values), high


def ratios(above, below):
    """Pair by pair."""
    return [a / b for a, b in zip(above, below, strict=True)]


def of_roof(record, speed="gbs"):
    """Percent of the roof, pair by pair: `gbs` from the first file made to the model published, `whole_gbs` with launch and planning."""
    return [100 * ratio for ratio in ratios(record["samples"]["merge"][speed], record["samples"]["roof"]["gbs"])]


def median_ratio(record, above, below, figure="wall_s"):
    """Median of the paired ratios of two sides; `figure` may be a pair of names, one for each."""
    of_above, of_below = figure if isinstance(figure, tuple) else (figure, figure)
    return statistics.median(ratios(record["samples"][above][of_above], record["samples"][below][of_below]))


def median_wall(record):
    return statistics.median(record["samples"]["merge"]["wall_s"])
