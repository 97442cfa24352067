"""`scripts/bench NAME [--json]`: run one bench and print its figures."""

from __future__ import annotations

import argparse
import sys

from scripts.benches.figures import print_figures
from scripts.failures import run_reporting


def main() -> int:
    """Parse the command line and run the bench."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure; print medians and what they compare with.")
    parser.add_argument("name", choices=["trials", "harbor", "wire", "budget"], help="which bench")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--rewards", action="store_true", help="harbor: compare the rewards of every task of ours instead of times"
    )
    arguments = parser.parse_args()

    def run() -> int:
        if arguments.name == "trials":
            from scripts.benches.trials import measure_trials

            print_figures(measure_trials(), as_json=arguments.json)
            return 0
        if arguments.name == "budget":
            from scripts.benches.budget import measure_budget

            print_figures(measure_budget(), as_json=arguments.json)
            return 0
        if arguments.name == "wire":
            from scripts.benches.wire import measure_wire

            print_figures(measure_wire(), as_json=arguments.json)
            return 0
        from scripts.benches.harbor import compare_rewards, measure_harbor

        if arguments.rewards:
            return compare_rewards(as_json=arguments.json)
        print_figures(measure_harbor(), as_json=arguments.json)
        return 0

    return run_reporting(run, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
