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

// Variables that select everything, and what Grafana calculates itself.
function filled(text) {
  return text.replaceAll('$__rate_interval', '60s').replaceAll('$__range_s', `${minutes * 60}`).replaceAll('$__range', `${minutes * 60}s`).replaceAll('$__interval', `${STEP}s`)
    .replace(/\$\{?(cluster|instance|gpu|jobid)(:\w+)?\}?/g, '.*');
}

async function ask(target) {
  const query = encodeURIComponent(filled(target.expr));
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

async function frames(panel) {
  const many = panel.targets.length > 1;
  const all = await Promise.all(panel.targets.map(async (t) => {
    const result = await ask(t);
    return t.format === 'table' ? table(result, many ? `Value #${t.refId}` : 'Value') : lines(result, t);
  }));
  const changed = await firstValueFrom(transformDataFrame(panel.transformations, all.flat()));
  const shown = applyFieldOverrides({ data: changed, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry(panel.fieldConfig),
    replaceVariables: (text) => text, theme, timeZone: 'utc' });
  cacheFieldDisplayNames(shown);
  return shown;
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

function Panel({ panel, data }) {
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute', left: x * COLUMN + 8, top: y * ROW + 8 };
  if (panel.type === 'row') return <h4 style={place}>{panel.title}</h4>;
  return <div style={place} data-panel={panel.id}><PanelChrome title={panel.title} description={panel.description} width={w * COLUMN - 8}
    height={h * ROW - 8}>{(width, height) => <Content panel={panel} data={data} width={width} height={height} />}</PanelChrome></div>;
}

function Dashboard({ data }) {
  const height = Math.max(...dashboard.panels.map((p) => p.gridPos.y + p.gridPos.h)) * ROW + 24;
  return <ThemeContext.Provider value={theme}><GlobalStyles /><div style={{ position: 'relative', width: 24 * COLUMN + 16, height,
    background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
    {dashboard.panels.map((p, i) => <Panel key={p.id} panel={p} data={data[i]} />)}</div></ThemeContext.Provider>;
}

// What each panel shows, once the browser has drawn it.
async function draw() {
  const data = await Promise.all(dashboard.panels.map((p) => (p.type === 'row' ? null : frames(p))));
  const at = document.createElement('div');
  document.body.append(at);
  createRoot(at).render(<Dashboard data={data} />);
  for (let turn = 0; turn < 20; turn++) await new Promise((done) => setTimeout(done, 100));
  let row = '';
  return dashboard.panels.flatMap((p, i) => {
    if (p.type === 'row') {
      row = p.title;
      return [];
    }
    const at = document.querySelector(`[data-panel="${p.id}"]`);
    const grid = at.querySelector('[role=grid]');
    return [{ title: p.title, row, kind: p.type, frames: data[i].length, canvases: at.querySelectorAll('canvas').length,
      text: at.innerText, rows: at.querySelectorAll('[role=row]').length - 1, hidden: grid ? grid.scrollWidth - grid.clientWidth : 0 }];
  });
}
window.DRAWN = draw();
