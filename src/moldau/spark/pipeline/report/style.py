"""How the page looks: one style sheet in it, for light and dark."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--ground:#f6f7f9;--card:#ffffff;--line:#e3e7ee;--ink:#1f2430;
--soft:#667085;--faint:#98a2b3;--good:#15803d;--bad:#c2410c;--k0:#2563eb;--k1:#db7706;--k2:#0d9488;
--k3:#b83280;--k4:#6d5bd0;--k5:#64748b}
@media (prefers-color-scheme:dark){:root{--ground:#0f1218;--card:#181c26;--line:#2a3040;
--ink:#eef1f6;--soft:#a3adbf;--faint:#76819a;--good:#4ade80;--bad:#fb8a5b;--k0:#6ea8fe;--k1:#f5a742;
--k2:#2dd4bf;--k3:#f472b6;--k4:#a396ff;--k5:#94a3b8}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:24px;margin:0;letter-spacing:-.01em}h2{font-size:16px;margin:32px 0 12px}
.top{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:center}
.state{font-size:12px;font-weight:600;padding:2px 10px;border-radius:99px;
border:1px solid currentColor;color:var(--soft)}
.state.running{color:var(--good)}.state.failed,.state.killed,.state.restarting{color:var(--bad)}
.about{color:var(--soft);margin:6px 0 0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(124px,1fr));gap:12px;margin:22px 0}
.tile,figure,.card{background:var(--card);border:1px solid var(--line);border-radius:12px}
.tile{padding:12px 16px}.tile b{display:block;font-size:22px;font-weight:650;
letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:12.5px}.tile.bad b{color:var(--bad)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
figure{margin:0;padding:14px 16px 10px}
figcaption{display:flex;justify-content:space-between;gap:12px;margin-bottom:6px}
.now{color:var(--soft);font-variant-numeric:tabular-nums}
figure svg{display:block;width:100%;height:auto;overflow:visible}
.grid{stroke:var(--line)}.tick{fill:var(--faint);font-size:10.5px;font-variant-numeric:tabular-nums}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.area{opacity:.1;stroke:none}.hover{fill:transparent}.hover:hover{fill:var(--faint);opacity:.18}
.event{stroke:var(--faint);stroke-dasharray:2 3}
.event.failed,.event.restarting,.event.killed{stroke:var(--bad);stroke-dasharray:none;opacity:.7}
.keys{display:flex;flex-wrap:wrap;gap:2px 14px;margin-top:4px;font-size:12px;color:var(--soft)}
.key::before{content:"";display:inline-block;width:9px;height:9px;border-radius:3px;
margin-right:6px;background:currentColor}
.key.k0::before{background:var(--k0)}.key.k1::before{background:var(--k1)}
.key.k2::before{background:var(--k2)}.key.k3::before{background:var(--k3)}
.key.k4::before{background:var(--k4)}.key.k5::before{background:var(--k5)}
.line.k0{stroke:var(--k0)}.line.k1{stroke:var(--k1)}.line.k2{stroke:var(--k2)}
.line.k3{stroke:var(--k3)}.line.k4{stroke:var(--k4)}.line.k5{stroke:var(--k5)}
.area.k0,.dot.k0{fill:var(--k0)}.dot.k1{fill:var(--k1)}.dot.k2{fill:var(--k2)}
.dot.k3{fill:var(--k3)}.dot.k4{fill:var(--k4)}.dot.k5{fill:var(--k5)}
.card{padding:6px 0;overflow-x:auto}
.graph{padding:10px;text-align:center}.graph svg{max-width:100%;height:auto}
.graph .ground{fill:none!important}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 16px;vertical-align:top}
th{color:var(--soft);font-weight:500;font-size:12.5px}td{border-top:1px solid var(--line)}
td.number,th.number{text-align:right}td.said{overflow-wrap:anywhere}
td .bar{display:inline-block;height:8px;border-radius:4px;background:var(--bad);margin-right:8px}
footer{margin-top:28px;color:var(--faint);font-size:12.5px}
"""
