(() => {
  const {color, runColor, short, axis, ticksAt, makers} = dtrainCharts;
  const history = JSON.parse(document.getElementById('history').textContent);
  const stamp = (point) => point.created + ' ' + point.commit;
  const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + '\u2026' : text);
  const title = (series) => (series.tool === 'dtrain' ? series.label : `${series.tool}: ${series.label}`);

  // Changes as dashed lines between two results, in the colour of their series.
  const changeLines = {
    id: 'changeLines',
    afterDatasetsDraw(chart) {
      let lines = 0;
      chart.data.datasets.forEach((dataset, i) => {
        if (!dataset.changes || dataset.changes.length === 0 || !chart.isDatasetVisible(i)) return;
        const {ctx, chartArea: {top, bottom}, scales: {x}} = chart;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = dataset.borderColor;
        ctx.setLineDash([4, 3]);
        ctx.textAlign = 'center';
        const height = top + 8 + 11 * (lines++ % 8);
        for (const change of dataset.changes) {
          const at = x.getPixelForValue(change.x);
          ctx.beginPath();
          ctx.moveTo(at, height + 4);
          ctx.lineTo(at, bottom);
          ctx.stroke();
          ctx.fillText(change.text, at, height);
        }
        ctx.restore();
      });
    },
  };

  // Results in the order of their time: as far apart as they are many, so that commits can be read.
  function timeline(machine) {
    const points = new Map(machine.series.flatMap((series) => series.points).map((point) => [stamp(point), point]));
    const stamps = [...points.keys()].sort();
    return {
      at: new Map(stamps.map((text, i) => [text, i])),
      labels: stamps.map((text) => [cut(points.get(text).commit, 14), points.get(text).created.slice(0, 10)]),
    };
  }

  function line(series, i, time, key, factor, changes) {
    const known = series.points.filter((point) => point[key] != null);
    const data = known.map((point) => ({
      x: time.at.get(stamp(point)), y: point[key].median * factor, low: point[key].low * factor, high: point[key].high * factor,
    }));
    return {
      label: cut(title(series), 60), data, whiskers: data, borderColor: runColor(i), borderWidth: 2, pointRadius: 3.5,
      borderDash: series.tool === 'dtrain' ? [] : [6, 4],
      pointBackgroundColor: known.map((point) => (point.stable ? runColor(i) : color('card'))),
      changes: changes.map((change) => ({
        x: (time.at.get(change.after_created + ' ' + change.after_commit) + time.at.get(change.before_created + ' ' + change.before_commit)) / 2,
        text: `${change.percent > 0 ? '+' : ''}${change.percent.toFixed(1)} %`,
      })),
    };
  }

  // Room for the whiskers; by powers of ten where configurations are far apart, so that each one's changes are seen.
  function heights(datasets) {
    const [lows, highs] = [datasets.flatMap((set) => set.data.map((p) => p.low)), datasets.flatMap((set) => set.data.map((p) => p.high))];
    const [low, high] = [Math.min(...lows), Math.max(...highs)];
    return low > 0 && high / low > 8 ? {type: 'logarithmic', min: low / 1.2, max: high * 1.2} :
        {suggestedMin: low - (high - low) * 0.15, suggestedMax: high + (high - low) * 0.15};
  }

  function chart(datasets, time, unit) {
    const text = datasets.map((set) => `${set.label}: ` + set.data.map((p) => `${short(p.y)} at ${time.labels[p.x].join(', ')}`).join('; ') +
        set.changes.map((change) => `; change of ${change.text}`).join('')).join('. ');
    return {
      text: `${unit} over time. ${text}`,
      plugins: [changeLines],
      config: {
        type: 'line',
        data: {datasets},
        options: {
          scales: {
            x: axis('commit, in the order of measuring', {
              type: 'linear', min: -0.5, max: time.labels.length - 0.5, ...ticksAt(time.labels.map((_, i) => i)),
              ticks: {color: color('soft'), callback: (value) => time.labels[value]},
            }),
            y: axis(unit, heights(datasets)),
          },
          plugins: {
            legend: {labels: {filter: (item) => !item.text.endsWith(', as measured')}},
            tooltip: {callbacks: {title: (items) => time.labels[items[0].parsed.x].join(', ')}},
          },
        },
      },
    };
  }

  function rates(machine) {
    const time = timeline(machine);
    const datasets = machine.series.flatMap((series, i) => {
      const judged = line(series, i, time, series.changes_of, 1, series.changes);
      if (series.changes_of === 'images_per_second') return [judged];
      const raw = line(series, i, time, 'images_per_second', 1, []);
      return [judged, {...raw, label: judged.label + ', as measured', whiskers: null, borderDash: [2, 3], borderWidth: 1, pointRadius: 1.5}];
    });
    return datasets.length === 0 ? {empty: 'Nothing was measured here.'} : chart(datasets, time, 'images/s, all replicas');
  }

  function efficiencies(machine) {
    const time = timeline(machine);
    const datasets = machine.series.map((series, i) => line(series, i, time, 'efficiency', 100, [])).filter((set) => set.data.length > 0);
    return datasets.length === 0 ? {empty: 'No efficiency: it needs several replicas, none of them simulated, and a base beside them.'} :
        chart(datasets, time, 'scaling efficiency, %');
  }

  history.machines.forEach((machine, i) => {
    makers[`history-rates-${i}`] = () => rates(machine);
    makers[`history-efficiencies-${i}`] = () => efficiencies(machine);
  });
})();
