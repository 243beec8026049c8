// How the page of a report looks: light and dark, narrow and wide.
#pragma once

#include <string_view>

namespace shardweld::app {

inline constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--ink:#17202b;--soft:#5d6978;--line:#e2e6eb;--track:#edf0f3;
--good:#157a46;--doubt:#96620a;--bad:#b3261e;--written:#2f6fde;--replica:#8a63d2;--padding:#d9902f;--ignored:#98a3b1;
--p0:#2f6fde;--p1:#12a594;--p2:#d9902f;--p3:#8a63d2;--p4:#d6467e;--p5:#5c9e31;--p6:#1fa2cc;--p7:#c2562d;--p8:#7b8794;--p9:#b59b1d}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--card:#161c24;--ink:#e7ecf2;--soft:#98a5b5;--line:#29323d;--track:#222a34;
--good:#4cc283;--doubt:#e3ab4a;--bad:#ff8078;--written:#5b93f5;--replica:#aa8bea;--padding:#e6a855;--ignored:#6b7787;
--p0:#5b93f5;--p1:#2ec4b0;--p2:#e6a855;--p3:#aa8bea;--p4:#ee6f9f;--p5:#83c255;--p6:#4cc0e6;--p7:#e27d54;--p8:#8f9bab;--p9:#d6bc45}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;line-height:1.2;margin:0;display:flex;flex-wrap:wrap;align-items:center;gap:12px}
h2{font-size:16px;margin:0 0 14px}
code,pre,.path{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
.path{color:var(--soft);overflow-wrap:anywhere;margin:6px 0 0}
.badge{font-size:13px;font-weight:600;padding:3px 11px;border-radius:99px;color:var(--card)}
.badge.good{background:var(--good)}.badge.bad{background:var(--bad)}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px;margin-top:18px;min-width:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:12px;margin-top:20px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px}
.tile b{display:block;font-size:20px;line-height:1.25;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile span,small{color:var(--soft);font-size:13px}
.error{border-color:var(--bad);white-space:pre-wrap;overflow-wrap:anywhere}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:0 18px}
.flow{display:grid;grid-template-columns:minmax(70px,1fr) minmax(0,1.3fr)}
.flow svg{width:100%;display:block}
.flow ul{list-style:none;margin:0;padding:0 0 0 14px}
.flow li{display:flex;flex-direction:column;justify-content:center;min-width:0;line-height:1.3}
.flow .what{font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.flow .much{font-variant-numeric:tabular-nums;white-space:nowrap}
.flow small{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.written{fill:var(--written)}.replica{fill:var(--replica)}.padding{fill:var(--padding)}.ignored{fill:var(--ignored)}
.band{opacity:.38}
.lines{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:5px 12px;align-items:center}
.lines .name{font-size:13px;color:var(--soft);white-space:nowrap;max-width:26vw;overflow:hidden;text-overflow:ellipsis}
.lane{display:flex;height:20px;background:var(--track);border-radius:4px;overflow:hidden}
.lane i{display:block;height:100%;flex:none;background:var(--c);border-right:1px solid var(--card);font:600 11px/20px system-ui,sans-serif;
color:#fff;text-shadow:0 0 2px #0008;text-align:center;overflow:hidden;white-space:nowrap}
.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 0;padding:0;list-style:none;font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;background:var(--c);margin-right:7px}
.legend span{color:var(--soft);font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th{font-weight:600;text-align:left;color:var(--soft);font-size:13px}
th,td{padding:6px 12px 6px 0;border-bottom:1px solid var(--line);vertical-align:middle}
tr:last-child td{border-bottom:0}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.bar{min-width:96px}td:first-child{white-space:nowrap}td code{white-space:normal;overflow-wrap:anywhere}
.meter{height:7px;background:var(--track);border-radius:4px;margin-top:4px;overflow:hidden}
.meter i{display:block;height:100%;background:var(--c,var(--written));border-radius:4px}
ul.checks{list-style:none;margin:0;padding:0}
ul.checks li{display:grid;grid-template-columns:22px minmax(0,1fr);padding:5px 0;overflow-wrap:anywhere}
.sign{font-weight:700}.sign.good{color:var(--good)}.sign.doubt{color:var(--doubt)}.sign.bad{color:var(--bad)}.sign.unknown{color:var(--soft)}
ul.checks small{display:block}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--track);border-radius:8px;padding:13px 15px}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:6px 18px;margin:0;font-size:14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:13px;margin-top:22px;text-align:center}
@media(max-width:560px){main{padding:18px 12px 32px}.card{padding:15px}.lane i{font-size:0}.host{display:none}dl{grid-template-columns:1fr;gap:0}
dd{margin-bottom:8px}.flow{grid-template-columns:64px minmax(0,1fr)}}
@media print{body{background:#fff}.card,.tile{break-inside:avoid}}
)css";

}  // namespace shardweld::app
