"""Figures, maps and the HTML report of a run.

Plain data in, one self-contained HTML file out: :mod:`~weatherpp.report.content` describes what
a report holds, :mod:`~weatherpp.report.figures` and :mod:`~weatherpp.report.maps` draw,
:mod:`~weatherpp.report.words` turns tables into sentences, :mod:`~weatherpp.report.html` writes
the file. Importing this package loads none of them.
"""
