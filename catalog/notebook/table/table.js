// Sorts and pages each table that has not been made ready yet. What is shown without JavaScript is the table itself.
document.querySelectorAll(".streamtime-table:not([data-ready])").forEach((box) => {
  box.dataset.ready = "";
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("thead th")], foot = box.querySelector(".pages");
  const rows = [...body.rows].map((row, place) => ({ row, place }));
  const size = 20;
  let page = 0, by = -1, down = false;

  const value = (entry, column) => {
    const cell = entry.row.cells[column];
    return cell.classList.contains("null") ? null : cell.textContent;
  };
  const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const number = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // NaN is the largest, as in Spark
    if (x !== y) return x < y ? -1 : 1;
    return a.localeCompare(b, "en", { numeric: true }) * (x < 0 ? -1 : 1); // more digits than a number holds
  };
  const order = (column) => {
    const compare = heads[column].classList.contains("number") ? number : text;
    return (one, other) => {
      const [a, b] = [value(one, column), value(other, column)];
      if (a === null || b === null) return (a === null) - (b === null) || one.place - other.place; // nulls last
      return (down ? -1 : 1) * compare(a, b) || one.place - other.place;
    };
  };
  const show = () => {
    const sorted = by < 0 ? rows : [...rows].sort(order(by));
    const pages = Math.max(1, Math.ceil(rows.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    body.replaceChildren(...sorted.slice(page * size, (page + 1) * size).map((entry) => entry.row));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
    foot.hidden = pages === 1;
    foot.querySelector("span").textContent = `page ${page + 1} of ${pages}`;
    const [back, forth] = foot.querySelectorAll("button");
    back.disabled = page === 0;
    forth.disabled = page === pages - 1;
  };
  heads.forEach((head, i) => {
    const sort = () => {
      if (by !== i) [by, down] = [i, false];
      else if (!down) down = true;
      else by = -1;
      page = 0;
      show();
    };
    head.tabIndex = 0;
    head.title = "sort";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
    });
  });
  foot.querySelectorAll("button").forEach((button, i) => button.addEventListener("click", () => { page += i ? 1 : -1; show(); }));
  show();
});
