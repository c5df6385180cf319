'use strict';
// What the charts of every page share: the page's colours, axes, whiskers, and drawing what its scripts have made.
const dtrainCharts = (() => {
  const root = document.documentElement;
  root.dataset.errors = '0';
  addEventListener('error', () => { root.dataset.errors = String(Number(root.dataset.errors) + 1); });

  const color = (name) => getComputedStyle(root).getPropertyValue('--' + name).trim();
  const runColor = (i) => color('run-' + (i % 6));
  const partColor = (i) => color('part-' + Math.min(i, 7));
  const short = (x) => Number(x).toLocaleString('en-US', {maximumSignificantDigits: 4});
  const axis = (title, more = {}) => ({
    title: {display: true, text: title, color: color('soft')},
    ticks: {color: color('soft')},
    grid: {color: color('line'), borderColor: color('line')},
    ...more,
  });
  const ticksAt = (values) => ({afterBuildTicks: (a) => { a.ticks = values.map((value) => ({value})); }});

  // Intervals of a dataset as vertical lines with caps; `whiskers` holds {low, high} beside each point.
  const whiskers = {
    id: 'whiskers',
    afterDatasetsDraw(chart) {
      chart.data.datasets.forEach((dataset, i) => {
        if (!dataset.whiskers || !chart.isDatasetVisible(i)) return;
        const {ctx, scales: {y}} = chart;
        ctx.save();
        ctx.strokeStyle = dataset.borderColor;
        ctx.lineWidth = 1.5;
        chart.getDatasetMeta(i).data.forEach((point, k) => {
          const {low, high} = dataset.whiskers[k];
          if (low == null || high == null) return;
          const [top, bottom] = [y.getPixelForValue(high), y.getPixelForValue(low)];
          ctx.beginPath();
          ctx.moveTo(point.x, top);
          ctx.lineTo(point.x, bottom);
          for (const end of [top, bottom]) {
            ctx.moveTo(point.x - 5, end);
            ctx.lineTo(point.x + 5, end);
          }
          ctx.stroke();
        });
        ctx.restore();
      });
    },
  };

  // Canvas id -> function that returns {config, text}: what to draw, and the same in words; or {empty}: why there is
  // nothing to draw.
  const makers = {};
  let charts = [];

  function draw() {
    charts.forEach((chart) => chart.destroy());
    charts = [];
    Chart.defaults.animation = false;
    Chart.defaults.responsive = true;
    Chart.defaults.maintainAspectRatio = false;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.color = color('ink');
    Chart.defaults.plugins.legend.position = 'bottom';
    Object.assign(Chart.defaults.plugins.legend.labels, {boxWidth: 24, boxHeight: 0});
    let empty = 0;
    for (const [id, make] of Object.entries(makers)) {
      const canvas = document.getElementById(id);
      if (!canvas) {
        empty += 1;
        continue;
      }
      const made = make();
      if (made.empty) {
        const note = Object.assign(document.createElement('p'), {className: 'empty', textContent: made.empty});
        const figure = canvas.closest('figure');
        figure.classList.add('blank');
        canvas.replaceWith(note);
        if (figure.classList.contains('optional')) figure.remove();
        empty += 1;
        continue;
      }
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', made.text);
      canvas.textContent = made.text;
      charts.push(new Chart(canvas, {...made.config, plugins: [whiskers, ...(made.plugins || [])]}));
    }
    // What was drawn stands on the root element, so that tests and tools need not look at pixels.
    const inked = charts.filter(({canvas, ctx}) => canvas.width > 0 && canvas.height > 0 &&
        ctx.getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte !== 0));
    root.dataset.charts = String(inked.length);
    root.dataset.empty = String(empty);
    root.dataset.requests = String(performance.getEntriesByType('resource').length);
  }

  function start() {
    draw();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  }

  return {color, runColor, partColor, short, axis, ticksAt, makers, start};
})();
