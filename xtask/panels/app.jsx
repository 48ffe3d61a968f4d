// Draws the panels of a dashboard with Grafana's own components, from the Prometheus that serves this page.
import 'uplot/dist/uPlot.min.css';
import React from 'react';
import { createRoot } from 'react-dom/client';
import {
  FieldConfigOptionsRegistry, FieldType, ThemeContext, applyFieldOverrides, cacheFieldDisplayNames, createTheme, dataLinksOverrideProcessor, dateTime,
  displayNameOverrideProcessor, getFieldDisplayValues, identityOverrideProcessor, valueMappingsOverrideProcessor,
  numberOverrideProcessor, standardTransformers, standardTransformersRegistry, thresholdsOverrideProcessor, toDataFrame,
  transformDataFrame, unitOverrideProcessor,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { firstValueFrom } from 'rxjs';

const { dashboard, mode, minutes } = window.INPUT;
// Of Grafana's grid: 24 columns.
const COLUMN = 52, ROW = 36;
const STEP = 15;
// Of drawing, in milliseconds.
const LIMIT = 60000;
const theme = createTheme({ colors: { mode } });
const to = dateTime(Date.now()), from = dateTime(Date.now() - minutes * 60000);
const range = { from, to, raw: { from, to } };

// Some have two names.
const transformers = new Map(Object.values(standardTransformers).map((t) => [t.id, t]));
standardTransformersRegistry.setInit(() => [...transformers].map(([id, t]) => ({ id, name: t.name, transformation: async () => t })));

const PROCESSORS = {
  displayName: displayNameOverrideProcessor, unit: unitOverrideProcessor, min: numberOverrideProcessor, max: numberOverrideProcessor,
  decimals: numberOverrideProcessor, thresholds: thresholdsOverrideProcessor, mappings: valueMappingsOverrideProcessor,
  links: dataLinksOverrideProcessor, noValue: identityOverrideProcessor, color: identityOverrideProcessor,
};

// The options that a panel sets.
function registry(config) {
  const items = Object.entries(PROCESSORS).map(([id, process]) => ({ id, path: id, name: id, process, shouldApply: () => true }));
  const custom = new Set(Object.keys(config.defaults.custom || {}));
  config.overrides.flatMap((o) => o.properties).filter((p) => p.id.startsWith('custom.')).forEach((p) => custom.add(p.id.slice(7)));
  custom.forEach((path) => items.push({
    id: `custom.${path}`, path, name: path, isCustom: true, process: identityOverrideProcessor, shouldApply: () => true,
  }));
  return new FieldConfigOptionsRegistry(() => items);
}

async function ask(target) {
  const query = encodeURIComponent(target.expr);
  const path = target.instant ? `query?query=${query}&time=${to.valueOf() / 1000}`
    : `query_range?query=${query}&start=${from.valueOf() / 1000}&end=${to.valueOf() / 1000}&step=${STEP}`;
  const answer = await (await fetch(`/api/v1/${path}`)).json();
  if (answer.status !== 'success') throw new Error(`${target.expr}: ${answer.error}`);
  return answer.data.result;
}

function table(result, name) {
  const labels = [...new Set(result.flatMap((s) => Object.keys(s.metric)))].sort();
  const fields = labels.map((l) => ({ name: l, type: FieldType.string, values: result.map((s) => s.metric[l] ?? '') }));
  return result.length === 0 ? [] : [toDataFrame({ fields: [
    { name: 'Time', type: FieldType.time, values: result.map((s) => s.value[0] * 1000) }, ...fields,
    { name, type: FieldType.number, values: result.map((s) => +s.value[1]) }] })];
}

function lines(result, target) {
  return result.map((s) => {
    const legend = target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, l) => s.metric[l] ?? '');
    const points = s.values ?? [s.value];
    return toDataFrame({ refId: target.refId, name: legend, fields: [
      { name: 'Time', type: FieldType.time, values: points.map((v) => v[0] * 1000), config: { interval: STEP * 1000 } },
      { name: 'Value', type: FieldType.number, values: points.map((v) => +v[1]), labels: s.metric,
        config: legend ? { displayNameFromDS: legend } : {} }] });
  });
}

// What a panel shows, and how many series each of its queries has.
async function answers(panel) {
  const many = panel.targets.length > 1;
  const results = await Promise.all(panel.targets.map(ask));
  const all = panel.targets.map((t, i) => (t.format === 'table' ? table(results[i], many ? `Value #${t.refId}` : 'Value') : lines(results[i], t)));
  const changed = await firstValueFrom(transformDataFrame(panel.transformations, all.flat()));
  const shown = applyFieldOverrides({ data: changed, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry(panel.fieldConfig),
    replaceVariables: (text) => text, theme, timeZone: 'utc' });
  cacheFieldDisplayNames(shown);
  return { frames: shown, queries: panel.targets.map((t, i) => ({ legend: t.legendFormat, series: results[i].length })) };
}

function Content({ panel, data, width, height }) {
  if (data.length === 0) return <div style={{ padding: 16 }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
  if (panel.type === 'table') return <TableNG data={data[0]} width={width} height={height} cellHeight={panel.options.cellHeight} />;
  if (panel.type === 'timeseries') {
    return <TimeSeries frames={data} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend} />;
  }
  const values = getFieldDisplayValues({ fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, data, theme,
    replaceVariables: (text) => text, sparkline: true, timeZone: 'utc' });
  return <div style={{ display: 'flex' }}>{values.map((v, i) => <BigValue key={i} theme={theme} width={width / values.length}
    height={height} colorMode={panel.options.colorMode} graphMode={panel.options.graphMode} textMode={panel.options.textMode}
    sparkline={v.sparkline} value={v.display} />)}</div>;
}

// React removes a tree that throws: the other panels stay.
class Boundary extends React.Component {
  state = {};

  static getDerivedStateFromError(error) {
    return { error };
  }

  render() {
    return this.state.error ? <div>{`${this.state.error}`}</div> : this.props.children;
  }
}

function Panel({ panel, data }) {
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute', left: x * COLUMN + 8, top: y * ROW + 8 };
  if (panel.type === 'row') return <h4 style={place}>{panel.title}</h4>;
  return <div style={place} data-panel={panel.id}><PanelChrome title={panel.title} description={panel.description} width={w * COLUMN - 8}
    height={h * ROW - 8}>{(width, height) => <Boundary><Content panel={panel} data={data.frames} width={width} height={height} /></Boundary>}</PanelChrome></div>;
}

function Dashboard({ data }) {
  const height = Math.max(...dashboard.panels.map((p) => p.gridPos.y + p.gridPos.h)) * ROW + 24;
  return <ThemeContext.Provider value={theme}><GlobalStyles /><div style={{ position: 'relative', width: 24 * COLUMN + 16, height,
    background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
    {dashboard.panels.map((p, i) => <Panel key={p.id} panel={p} data={data[i]} />)}</div></ThemeContext.Provider>;
}

// Numbers that a line or a cell can show.
function points(frames) {
  const numbers = frames.flatMap((f) => f.fields.filter((x) => x.type === FieldType.number));
  return numbers.reduce((sum, field) => sum + field.values.filter(Number.isFinite).length, 0);
}

// Labels of a table's first row that its text lacks. Grafana draws the rows in view only.
function missing(panel, frames, text) {
  if (panel.type !== 'table' || frames.length === 0) return [];
  const labels = frames[0].fields.filter((f) => f.type === FieldType.string).map((f) => f.values[0]);
  return labels.filter((label) => label && !text.includes(label));
}

// The text of each panel, also of columns that were in view before.
const texts = new Map();

// What the page shows of a panel.
function look(panel, row, { frames, queries }) {
  const at = document.querySelector(`[data-panel="${panel.id}"]`);
  const seen = { id: panel.id, title: panel.title, row, kind: panel.type, drawn: false, frames: frames.length, points: points(frames), queries };
  if (!at) return seen;
  const grid = at.querySelector('[role=grid]');
  const before = texts.get(panel.id) ?? '';
  const text = before.includes(at.innerText) ? before : `${before}\n${at.innerText}`;
  texts.set(panel.id, text);
  const canvases = at.querySelectorAll('canvas').length, rows = at.querySelectorAll('[role=row]').length - 1;
  const expected = { timeseries: canvases > 0, table: rows > 0 }[panel.type];
  return { ...seen, drawn: frames.length === 0 || expected !== false, canvases, rows, text, missing: missing(panel, frames, text),
    hidden: grid ? grid.scrollWidth - grid.clientWidth : 0 };
}

// What each panel shows, once the browser has drawn all and nothing changes, or after the time limit.
async function draw() {
  const data = await Promise.all(dashboard.panels.map((p) => (p.type === 'row' ? null : answers(p))));
  const at = document.createElement('div');
  document.body.append(at);
  createRoot(at).render(<Dashboard data={data} />);
  const end = Date.now() + LIMIT;
  const scroll = (to) => document.querySelectorAll('[role=grid]').forEach((grid) => { grid.scrollLeft = to(grid); });
  for (let last = [], turn = 0; ; turn++) {
    await new Promise((done) => setTimeout(done, 300));
    let row = '';
    const now = dashboard.panels.flatMap((p, i) => {
      if (p.type !== 'row') return [look(p, row, data[i])];
      row = p.title;
      return [];
    });
    // As before, seen from both ends of wide tables.
    last = [...last, JSON.stringify(now)].slice(-3);
    const isStill = last.length === 3 && new Set(last).size === 1 && now.every((p) => p.drawn);
    if (isStill || Date.now() > end) {
      scroll(() => 0);
      await new Promise((done) => setTimeout(done, 300));
      return now;
    }
    // Grafana draws the columns in view only.
    scroll((grid) => (turn % 2 === 0 ? grid.scrollWidth : 0));
  }
}
window.DRAWN = draw();
