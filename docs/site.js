// A long table, such as that of all families, gets a field that shows only the rows with the typed words.
document.querySelectorAll(".md-typeset table").forEach(table => {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 40) return;
  const field = Object.assign(document.createElement("input"), {type: "search", placeholder: `Search these ${rows.length} rows`, className: "rows"});
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    rows.forEach(row => { row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)); });
  });
  table.before(field);
});
