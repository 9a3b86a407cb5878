"""Environment drift: how the environments of two groups of runs differ, and whether their results
do. (How a judge drifted is `taxonomy.calibration.drift`.)
"""
