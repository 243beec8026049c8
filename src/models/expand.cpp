// `at` blocks and stacked forms as lines with full names.
#include <algorithm>
#include <utility>

#include "shardweld/error.hpp"

#include "expr.hpp"
#include "resolve.hpp"
#include "scanner.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kMostLines = 100'000;

Line placed(const Line& line, const At& at) {
    Line full = line;
    full.name = at_origin(line.origin, [&] { return Pattern::parse(at.prefix + line.name.text); });
    full.logical = at.logical + line.logical;
    full.optional = line.optional || at.optional;
    full.together = line.together || (at.together && !line.optional);
    return full;
}

/// The form of a line whose capture is a leading axis instead.
Line stacked(const Line& line, const At& at) {
    const std::string part = "{" + at.stacked + "}.";
    const std::size_t where = at.prefix.find(part);
    if (where == std::string::npos) {
        throw Error(ErrorCode::usage, at.origin + ": the name '" + at.prefix + "' has no '" + part +
                                          "' to leave out");
    }
    for_each_node(line.condition, [&](const Expr& node) {
        if (node.op == Op::name && node.name == at.stacked) {
            throw Error(ErrorCode::usage, line.origin + ": the condition uses " + at.stacked +
                                              ", which has no single value in the stacked form");
        }
    });
    At shorter = at;
    shorter.prefix.erase(where, part.size());
    Line full = placed(line, shorter);
    full.layout =
        at_origin(line.origin, [&] { return layout::with_leading_axis(line.layout, at.stacked); });
    if (full.join && !full.join->flat) {
        for (JoinStep& step : full.join->steps) {
            step.dim += step.stack ? 0 : 1;
        }
    }
    return full;
}

/// Lines are large: a vector that grows would take thrice their memory.
std::size_t n_expanded(const FullDeclaration& whole,
                       const std::map<std::string, std::vector<Line>>& blocks) {
    std::size_t n = 0;
    for (const At& at : whole.declaration.ats) {
        const auto block = blocks.find(at.block);
        n += block == blocks.end() ? 0 : block->second.size() * (at.stacked.empty() ? 1 : 2);
    }
    return std::min(n, kMostLines);
}

}  // namespace

std::vector<Line> expand(const FullDeclaration& whole,
                         const std::map<std::string, std::vector<Line>>& blocks) {
    std::vector<Line> lines;
    lines.reserve(n_expanded(whole, blocks));
    for (const At& at : whole.declaration.ats) {
        const auto block = blocks.find(at.block);
        if (block == blocks.end()) {
            if (!whole.blocks.contains(at.block)) {
                throw Error(ErrorCode::usage, at.origin + ": there is no block '" + at.block + "'");
            }
            continue;
        }
        for (const Line& line : block->second) {
            lines.push_back(placed(line, at));
            if (!at.stacked.empty()) {
                lines.push_back(stacked(line, at));
            }
        }
        if (lines.size() > kMostLines) {
            throw Error(ErrorCode::usage, at.origin + ": more than 100000 lines in all");
        }
    }
    return lines;
}

}  // namespace shardweld::models
