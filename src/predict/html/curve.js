'use strict';
(() => {
  const root = document.documentElement;
  root.dataset.errors = '0';
  addEventListener('error', () => { root.dataset.errors = String(Number(root.dataset.errors) + 1); });

  const prediction = JSON.parse(document.getElementById('prediction').textContent);
  const curve = prediction.curve || [];
  const color = (name) => getComputedStyle(root).getPropertyValue('--' + name).trim();
  const short = (x) => Number(x).toLocaleString('en-US', {maximumSignificantDigits: 4});
  const powers = (values) => {
    const ticks = [];
    for (let n = 1; n <= Math.max(...values); n *= 2) ticks.push(n);
    const every = Math.ceil(ticks.length / 11);
    return ticks.filter((_, i) => i % every === 0);
  };
  const axis = (title, more = {}) => ({
    title: {display: true, text: title, color: color('soft')},
    ticks: {color: color('soft'), callback: (value) => short(value)},
    grid: {color: color('line'), borderColor: color('line')},
    ...more,
  });
  const replicas = () => axis('replicas N', {
    type: 'logarithmic', min: 1, max: curve[curve.length - 1].replicas,
    afterBuildTicks: (a) => { a.ticks = powers(curve.map((e) => e.replicas)).map((value) => ({value})); },
  });
  const points = (value) => curve.map((e) => ({x: e.replicas, y: value(e)}));

  function rate() {
    const one = curve[0].images_per_second.value;
    const line = {showLine: true, pointRadius: 0, borderWidth: 2};
    const measured = prediction.measured.map((m) => ({x: m.replicas, y: m.images_per_second}));
    const largest = Math.max(...prediction.measured.map((m) => m.replicas));
    return {
      text: 'images per second: measured ' + measured.map((p) => `${short(p.y)} at N = ${p.x}`).join(', ') + '; predicted ' +
          prediction.predictions.map((e) => `${short(e.images_per_second.value)} [${short(e.images_per_second.low)}, ${short(e.images_per_second.high)}] at N = ${e.replicas}, ${e.how}`).join('; '),
      config: {
        type: 'scatter',
        data: {datasets: [
          {label: 'measured', data: measured, backgroundColor: color('run-2'), pointRadius: 5},
          {...line, label: 'predicted', data: points((e) => e.images_per_second.value), borderColor: color('accent'),
            segment: {borderDash: (s) => (s.p1.parsed.x > largest ? [7, 4] : undefined)}},
          {...line, label: 'low', data: points((e) => e.images_per_second.low), borderWidth: 0, fill: '+1', backgroundColor: color('accent') + '30'},
          {...line, label: '95 % interval', data: points((e) => e.images_per_second.high), borderWidth: 0, backgroundColor: color('accent') + '30'},
          {...line, label: 'ideal', data: curve.map((e) => ({x: e.replicas, y: e.replicas * one})), borderColor: color('soft'), borderDash: [3, 4], borderWidth: 1.5},
        ]},
        options: {
          scales: {x: replicas(), y: axis('images/s, all replicas', {
            type: 'logarithmic', ticks: {color: color('soft'), callback: (value) => (/^[125]0*(\.0+)?$/.test(String(value)) ? short(value) : '')},
          })},
          plugins: {legend: {labels: {filter: (item) => item.text !== 'low', boxHeight: 8}}},
        },
      },
    };
  }

  function parts() {
    const names = {computation: ['computation_seconds', 'part-0'], stragglers: ['straggler_seconds', 'part-3'], communication: ['communication_seconds', 'part-4']};
    return {
      text: prediction.predictions.map((e) => `N = ${e.replicas}: ` + Object.entries(names).map(([name, [key]]) => `${name} ${short(e.parts[key] * 1e3)} ms`).join(', ')).join('; '),
      config: {
        type: 'line',
        data: {datasets: Object.entries(names).map(([name, [key, ink]]) => ({
          label: name, data: points((e) => e.parts[key] * 1e3), fill: 'stack', pointRadius: 0, borderWidth: 1.5, borderColor: color(ink), backgroundColor: color(ink) + '80',
        }))},
        options: {
          scales: {x: replicas(), y: axis('ms a step', {stacked: true, beginAtZero: true})},
          plugins: {legend: {labels: {boxHeight: 8}}},
        },
      },
    };
  }

  let charts = [];
  function draw() {
    charts.forEach((chart) => chart.destroy());
    charts = [];
    Object.assign(Chart.defaults, {animation: false, responsive: true, maintainAspectRatio: false, color: color('ink')});
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.plugins.legend.position = 'bottom';
    for (const [id, make] of Object.entries({rate, parts})) {
      const canvas = document.getElementById(id);
      if (curve.length === 0) {
        canvas.closest('figure').remove();
        continue;
      }
      const {text, config} = make();
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', text);
      canvas.textContent = text;
      charts.push(new Chart(canvas, config));
    }
    // What was drawn stands on the root element, so that tests and tools need not look at pixels.
    const inked = charts.filter(({canvas, ctx}) => canvas.width > 0 && canvas.height > 0 &&
        ctx.getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte !== 0));
    root.dataset.charts = String(inked.length);
    root.dataset.requests = String(performance.getEntriesByType('resource').length);
  }

  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
})();
