"""The arguments of the commands about models."""

from airw.cli import commands
from airw.cli.arguments.bricks import Commands, add_command

__all__ = ["add_models"]


def add_models(sub: Commands) -> None:
    """Add model export."""
    about = "make models ready"
    model = sub.add_parser("model", help=about, description=f"{about.capitalize()}.")
    actions = model.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)
    epilog = """The vectors stay the same (to 1e-4, which is checked before anything is put in place), and so does the
model's name: a corpus built with the model opens with the export, and the other way round. Where onnxruntime and
tokenizers are installed, a folder with an export is run by them: without torch, and faster.
Exporting takes: pip install 'airw[sentence-transformers,onnx]' onnx"""
    export = add_command(actions, "export", commands.export, "export a model for onnxruntime", epilog=epilog)
    export.add_argument("folder", metavar="FOLDER", help="a model folder saved by sentence-transformers")
    export.add_argument(
        "--to", metavar="FOLDER", help="write it here, to be used without the weights; default: into the model folder"
    )
