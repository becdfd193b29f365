#include "sim/figures/page.hpp"

#include "markup.hpp"
#include "sim/figures/chart.hpp"

namespace tutti::app {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1b1f; --quiet: #6a6a75;
  --rule: #dcdce2; --panel: #f6f6f8; --c0: #1f6fb2; --c1: #c4501b; --c2: #2c8a4b; --c3: #8a4fb3;
  --c4: #a9791a; --c5: #b3375f; --c6: #2a8c92; --c7: #5b5b66; }
@media (prefers-color-scheme: dark) { :root { --paper: #17171a; --ink: #e8e8ec; --quiet: #9d9da8;
  --rule: #36363d; --panel: #1f1f24; --c0: #6cb2ec; --c1: #f08a55; --c2: #6cc48a; --c3: #c093e6;
  --c4: #dcb052; --c5: #ea7f9f; --c6: #62c6cc; --c7: #a6a6b2; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
nav a { margin-right: .8rem; } a { color: var(--c0); }
.panel { background: var(--panel); border: 1px solid var(--rule); border-radius: .4rem;
  padding: .2rem 1rem; }
dt { font-weight: 600; margin-top: .5rem; } dd { margin: 0 0 .5rem 0; }
code { font-size: .85em; overflow-wrap: anywhere; }
figure.chart { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--rule); stroke-width: 1; } .tick { fill: var(--quiet); font-size: 11px; }
.label { fill: var(--ink); font-size: 12px; }
svg g path { fill: none; stroke-width: 2; }
svg g.source path { stroke-dasharray: 6 4; } svg g.source circle { fill: var(--paper); }
svg g.source rect { fill-opacity: .25; stroke-width: 1.5; stroke-dasharray: 4 3; }
.legend { list-style: none; padding: 0; margin: .3rem 0; font-size: .85rem; }
.legend li { display: inline-block; margin-right: 1.2rem; }
.legend i { display: inline-block; width: 1.1rem; height: .6rem; margin-right: .35rem;
  border: 2px solid; background: currentColor; box-sizing: border-box; }
.legend i.source { background: transparent; border-style: dashed; }
.table { overflow-x: auto; } table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .25rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
)";

/// The CSS classes s0 to s7. Each sets one colour for the lines, dots, bars and legend of a series.
std::string colour_classes() {
  std::string css;
  for (const char digit : {'0', '1', '2', '3', '4', '5', '6', '7'}) {
    const std::string name = std::string("s") + digit;
    const std::string colour = std::string("var(--c") + digit + ")";
    css += "svg ." + name + " path, svg ." + name + " circle, svg ." + name +
           " rect { stroke: " + colour + "; } svg ." + name + " circle, svg ." + name +
           " rect { fill: " + colour + "; } i." + name + " { color: " + colour + "; }\n";
  }
  // Dots for values of [Khalilov24] are open: their fill has the colour of the page.
  return css + "svg g.source circle { fill: var(--paper); }\n";
}

std::string said(const char* term, const std::string& text) {
  return text.empty() ? std::string()
                      : std::string("<dt>") + term + "</dt><dd>" + escape(text) + "</dd>\n";
}

}  // namespace

std::string write_page(const std::string& about, const std::vector<FigureSection>& sections) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Tutti: the figures of Khalilov et al. beside ours</title>\n<style>";
  html += kStyle + colour_classes() + "</style>\n</head>\n<body>\n";
  html +=
      "<h1>The figures of Khalilov et al. beside ours</h1>\n<p>" + escape(about) + "</p>\n<nav>";
  for (const FigureSection& one : sections) {
    html +=
        "<a href=\"#" + one.id + "\">" + escape(one.title.substr(0, one.title.find(':'))) + "</a>";
  }
  html += "</nav>\n";
  for (const FigureSection& one : sections) {
    html += "<section id=\"" + one.id + "\">\n<h2>" + escape(one.title) + "</h2>\n" + one.pictures +
            "<dl class=\"panel\">\n" + said("Khalilov et al.", one.source) +
            said("Here", one.ours) + said("Why they differ", one.why);
    if (!one.command.empty()) {
      html += "<dt>Again</dt><dd><code>" + escape(one.command) + "</code></dd>\n";
    }
    html += "</dl>\n</section>\n";
  }
  return html + "</body>\n</html>\n";
}

}  // namespace tutti::app
