"""``placer profile runs``: a user's own measured runs become an overlay."""

from __future__ import annotations

from placer.cli.command import Catalog, Json, as_command
from placer.cli.output import check_targets, console, write_json
from placer.cli.screen.show import show

EPILOG = """\b
Example:
  placer profile runs runs.csv -o calibration.json
  placer estimate --model roberta-xlm --workers gcp/us-central1=8xT4:spot \\
    --calibration calibration.json

\b
RUNS is a CSV file with one measured run of an all-reduce a line:
  model,workers            as in 'placer estimate', such as roberta-xlm,gcp/us-central1=8xT4:spot
  samples_per_second       or step_s
  calculation_s            optional: wall-clock calculation of a step; gives the machines' speed
  communication_s          optional: wall-clock exchange of a step
  target_batch_size,compression,streams   optional
RUNS may also be the log of one such run, run.jsonl of 'placer run'. That of a run with --local
tells the speed of the model on this machine's processors, and nothing of the plan's machines.
"""


@as_command("runs", EPILOG)
def command(
    runs: str,
    *,
    catalog: Catalog,
    fit_links: tuple[str, ...] = (),
    output: str | None = None,
    as_json: Json,
) -> None:
    """Fit the timing model to your own measured runs, and report how good the fit is.

    Parameters
    ----------
    fit_links : A:B, --fit-link
        Fit this link even if the book has a figure for it; repeatable.
    output : FILE, -o --output
        Write the calibration, to be given to --calibration.
    """
    from placer.validation.calibration.calibrate import calibrate

    check_targets(output)
    report = calibrate(runs, catalog, fit_links)
    if output:
        write_json(output, report.to_dict())
    show(report.to_dict(), as_json=as_json)
    if as_json:
        return
    err = console(stderr=True)
    if output:
        err.print(f"wrote calibration to {output}")
    else:
        err.print(
            "next: -o calibration.json keeps it for --calibration of recommend, estimate and "
            "compare",
            style="dim",
        )
