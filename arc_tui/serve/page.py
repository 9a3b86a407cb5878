"""The app as it runs for a page: it draws as Textual's driver for the web does, as long as there
is somebody to draw for.
"""

from __future__ import annotations

from textual import messages
from textual.drivers.web_driver import WebDriver
from textual.events import AppBlur

from arc_tui.app import ArcApp


class PageDriver(WebDriver):
    """Ends the app with its input: whoever served it is gone, even if it was killed."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())


class PageApp(ArcApp):
    """Has the keys from the start, as in a terminal: the driver says that nobody looks, before any
    widget could have them, and none would get them back."""

    def on_app_blur(self, event: AppBlur) -> None:
        event.prevent_default()
