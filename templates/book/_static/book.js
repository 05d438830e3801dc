// Pages that were opened from a disk may not read one another, so nothing of what is found is quoted.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// A tap on a figure shows it large. Without this script its link leads to the image alone.
document.addEventListener("click", (event) => {
  const link = event.target.closest("figure a.image-reference");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) {
    return;
  }
  event.preventDefault();
  const dialog = document.createElement("dialog");
  dialog.className = "large-figure";
  const close = document.createElement("button");
  close.textContent = "Close";
  const image = document.createElement("img");
  image.src = link.href;
  image.alt = link.querySelector("img").alt;
  dialog.append(close, image);
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});
