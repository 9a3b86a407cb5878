// What textual.js leaves to the page: keys go to the terminal once the app draws, and a tab whose
// session has ended opens another by its button.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const drawing = new MutationObserver(() => {
    if (document.body.classList.contains("-first-byte")) {
      drawing.disconnect();
      document.querySelector(".xterm-helper-textarea").focus();
    }
  });
  drawing.observe(document.body, { attributeFilter: ["class"] });
  document.querySelector("#again").addEventListener("click", () => location.reload());
});
