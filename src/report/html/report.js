'use strict';
(() => {
  const {color, runColor, partColor, short, axis, ticksAt, makers} = dtrainCharts;
  const result = JSON.parse(document.getElementById('result').textContent);
  const runs = result.runs;
  // The plain loop lies close to N = 1 of a strategy: dashes let the other line show through.
  const dash = (run) => (run.base === 'plain' ? [5, 4] : []);
  const label = (run) => (run.id.length > 40 ? run.id.slice(0, 39) + '\u2026' : run.id) + (run.simulated ? ' (simulated)' : '');
  const median = (xs) => {
    const sorted = [...xs].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
  };

  function speedup() {
    const points = runs.filter((run) => run.speedup != null && run.base == null)
        .map((run) => ({x: run.replicas, y: run.speedup, low: run.speedup_low, high: run.speedup_high}));
    if (points.length > 0 && runs.some((run) => run.base === 'strategy')) points.unshift({x: 1, y: 1, low: null, high: null});
    if (points.length === 0) return {empty: 'No speed-up to show: nothing was measured beside a base of one replica, or all of it is simulated.'};
    const largest = Math.max(...points.map((p) => p.x));
    return {
      text: 'Speed-up ' + points.map((p) => `${short(p.y)}${p.low == null ? '' : ` [${short(p.low)}, ${short(p.high)}]`} at N = ${p.x}`).join('; '),
      config: {
        type: 'scatter',
        data: {datasets: [
          {label: 'measured, with 95 % interval', data: points, whiskers: points, showLine: true, borderColor: color('accent'), backgroundColor: color('accent'), pointRadius: 4},
          {label: 'ideal', data: [{x: 0, y: 0}, {x: largest, y: largest}], showLine: true, borderColor: color('soft'), borderDash: [6, 5], borderWidth: 1.5, pointRadius: 0},
        ]},
        options: {scales: {
          x: axis('replicas N', {min: 0, max: largest + 0.25, ...ticksAt(points.map((p) => p.x))}),
          y: axis('speed-up, times N = 1', {beginAtZero: true}),
        }},
      },
    };
  }

  // `names` maps each part to the number of its colour.
  function stacked(rows, names, horizontal, title, unit) {
    const bars = Object.entries(names).map(([name, part], i) => ({
      label: name, data: rows.map((row) => row.values[i]), backgroundColor: partColor(part), maxBarThickness: 64,
    }));
    const values = axis(title, {stacked: true});
    const categories = axis(horizontal ? 'rank' : 'run', {stacked: true, grid: {display: false, borderColor: color('line')}});
    return {
      text: rows.map((row) => `${row.name}: ` + Object.keys(names).map((name, i) => `${name} ${short(row.values[i])} ${unit}`).join(', ')).join('; '),
      config: {
        type: 'bar',
        data: {labels: rows.map((row) => row.name), datasets: bars},
        options: {
          indexAxis: horizontal ? 'y' : 'x',
          scales: horizontal ? {x: values, y: categories} : {x: categories, y: values},
          plugins: {legend: {labels: {boxHeight: 10, boxWidth: 14}}, tooltip: {callbacks: {label: (item) => `${item.dataset.label}: ${short(item.raw)} ${unit}`}}},
        },
      },
    };
  }

  function budget() {
    const shown = runs.filter((run) => run.budget);
    if (shown.length === 0) return {empty: 'No loss budget: it needs a base and a run with more than one replica.'};
    const names = Object.fromEntries(shown[0].budget.parts.map((part, i) => [part.name, i + 1]));
    const rows = shown.map((run) => ({name: label(run), values: run.budget.parts.map((part) => part.percent)}));
    return stacked(rows, names, false, 'lost, % of the measured step', '%');
  }

  function ranks() {
    const run = runs.filter((r) => r.rounds.some((round) => round.ranks && round.ranks.length)).sort((a, b) => a.replicas - b.replicas).pop();
    if (!run) return {empty: 'No phases were recorded.'};
    const rounds = run.rounds.filter((round) => round.ranks && round.ranks.length);
    const mean = (rank, get) => rounds.reduce((sum, round) => sum + (get(round.ranks[rank]) || 0), 0) / rounds.length * 1e3;
    const parts = {
      input: [1, (r) => r.phases.input],
      forward: [0, (r) => r.phases.forward],
      backward: [7, (r) => r.phases.backward],
      waiting: [3, (r) => r.straggler_wait_seconds],
      communication: [4, (r) => r.phases.communication - (r.straggler_wait_seconds || 0)],
      update: [5, (r) => r.phases.update],
      fused: [0, (r) => r.phases.fused],
      host: [6, (r) => r.phases.host],
    };
    const rows = rounds[0].ranks.map((rank, i) => ({
      name: rank.name || `rank ${i}`, values: Object.values(parts).map(([, get]) => mean(i, get)),
    }));
    const names = Object.fromEntries(Object.entries(parts).map(([name, [part]]) => [name, part]));
    const drawn = stacked(rows, names, true, `ms a step, ${label(run)}`, 'ms');
    drawn.text = `${label(run)}. ${drawn.text}`;
    return drawn;
  }

  function lines(datasets, x, y, text, more = {}) {
    return {text, config: {
      type: 'line',
      data: {datasets: datasets.map((d, i) => ({borderColor: runColor(d.run ?? i), backgroundColor: runColor(d.run ?? i), borderWidth: 2, ...d}))},
      options: {scales: {x: {type: 'linear', ...x}, y}, ...more},
    }};
  }

  function steps() {
    const shown = runs.map((run, i) => ({run, i, ms: run.rounds.flatMap((round) => round.step_seconds || []).map((s) => s * 1e3)}))
        .filter((entry) => entry.ms.length > 0);
    if (shown.length === 0) return {empty: 'No step times were kept.'};
    const all = shown.flatMap((entry) => entry.ms).sort((a, b) => a - b);
    const cut = all[Math.floor((all.length - 1) * 0.995)];
    const margin = Math.max((cut - all[0]) * 0.02, cut * 0.01);
    const [low, high, bins] = [Math.max(0, all[0] - margin), cut + margin, 48];
    const width = (high - low) / bins;
    const datasets = shown.map(({run, i, ms}) => {
      const counts = new Array(bins).fill(0);
      for (const value of ms) counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1;
      const data = counts.map((n, k) => ({x: low + k * width, y: n / ms.length * 100}));
      data.push({x: high, y: data[bins - 1].y});
      return {label: label(run), run: i, data, stepped: 'before', pointRadius: 0, fill: 'origin', backgroundColor: runColor(i) + '30', borderWidth: 1.5};
    });
    return lines(datasets, axis('step time, ms', {min: low, max: high, ticks: {color: color('soft'), includeBounds: false}}), axis('% of the steps', {beginAtZero: true}),
        'Step time ' + shown.map(({run, ms}) => `${label(run)}: median ${short(median(ms))} ms of ${ms.length} steps`).join('; '));
  }

  function rounds() {
    const shown = runs.map((run, i) => ({run, i})).filter(({run}) => run.rounds.length > 0);
    if (shown.length === 0) return {empty: 'No round was measured.'};
    const rate = (round) => round.images / round.seconds;
    const datasets = shown.map(({run, i}) => ({
      label: label(run), run: i, borderDash: dash(run), pointRadius: 3.5, data: run.rounds.map((round, k) => ({x: k + 1, y: rate(round)})),
    }));
    const last = Math.max(...shown.map(({run}) => run.rounds.length));
    return lines(datasets, axis('round', {min: 0.5, max: last + 0.5, ...ticksAt(Array.from({length: last}, (_, k) => k + 1))}),
        axis('images/s, all replicas', {beginAtZero: true}),
        'Images per second by round ' + shown.map(({run}) => `${label(run)}: ${run.rounds.map((r) => short(rate(r))).join(', ')}`).join('; '));
  }

  function loss() {
    const shown = runs.map((run, i) => ({run, i, data: (run.losses || []).map((y, k) => ({x: k + 1, y})).filter((p) => p.y != null)}))
        .filter((entry) => entry.data.length > 0);
    if (shown.length === 0) return {empty: 'No losses were recorded.'};
    const datasets = shown.map(({run, i, data}) => ({label: label(run), run: i, borderDash: dash(run), data, parsing: false, pointRadius: data.length > 1 ? 0 : 3, borderWidth: 1.3}));
    const last = Math.max(...shown.map(({run}) => run.losses.length));
    return lines(datasets, axis('step', {min: 0, max: last, ticks: {color: color('soft'), includeBounds: false}}), axis('cross-entropy, nats', {beginAtZero: true}),
        'Loss ' + shown.map(({run, data}) => `${label(run)}: ${short(data[0].y)} at step 1, ${short(data[data.length - 1].y)} at step ${data[data.length - 1].x}`).join('; '),
        {parsing: false, plugins: {decimation: {enabled: true, algorithm: 'min-max'}}});
  }

  function accuracy() {
    const shown = runs.map((run, i) => ({run, i})).filter(({run}) => run.evaluations && run.evaluations.length > 0);
    if (shown.length === 0) return {empty: 'Nothing was evaluated.'};
    const datasets = shown.map(({run, i}) => ({
      label: label(run), run: i, pointRadius: 3.5, data: run.evaluations.map((e) => ({x: e.seconds, y: e.accuracy * 100})),
    }));
    return lines(datasets, axis('training time, s', {min: 0}), axis('accuracy, %', {suggestedMin: 0, suggestedMax: 100}),
        'Accuracy ' + shown.map(({run}) => `${label(run)}: ${run.evaluations.map((e) => `${short(e.accuracy * 100)} % after epoch ${e.epoch}`).join(', ')}`).join('; '));
  }

  Object.assign(makers, {speedup, budget, steps, rounds, ranks, loss, accuracy});
})();
