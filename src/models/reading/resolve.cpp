// What a file extends and takes with it, put under its own statements.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/lists.hpp"
#include "models/expr.hpp"
#include "models/name_changes.hpp"
#include "models/pattern.hpp"
#include "shardweld/error.hpp"

#include "declaration.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kMostLines = 100'000;
constexpr std::size_t kDeepestExtends = 8;

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
    throw Error(ErrorCode::usage, origin + ": " + what);
}

std::size_t erase_named(std::vector<Line>& lines, const std::string& name) {
    return std::erase_if(lines, [&](const Line& line) { return line.name.text == name; });
}

void guard(std::vector<Line>& lines, const Line& edit) {
    bool is_met = false;
    for (Line& line : lines) {
        if (line.name.text == edit.name.text) {
            line.condition = conjunction_of(line.condition, edit.condition);
            is_met = true;
        }
    }
    if (!is_met) {
        refuse(edit.origin, "no inherited line '" + edit.name.text + "' to guard");
    }
}

/// A file's edits applied to the lines it inherits; its own lines follow the inherited ones.
Block settled(Block inherited, std::vector<Edit> edits) {
    std::vector<Line> own;
    for (Edit& edit : edits) {
        const std::string& name = edit.line.name.text;
        if (edit.kind == EditKind::guard) {
            guard(inherited.lines, edit.line);
        } else if (erase_named(inherited.lines, name) == 0 && edit.kind == EditKind::remove) {
            refuse(edit.line.origin, "no inherited line '" + name + "' to leave out");
        }
        if (edit.kind == EditKind::set) {
            own.push_back(std::move(edit.line));
        }
    }
    append_all(inherited.lines, std::move(own));
    return inherited;
}

Blocks settled(Blocks inherited, Blocks&& own) {
    for (auto& [name, block] : own) {
        inherited[name] = settled(std::move(inherited[name]), std::move(block.edits));
    }
    return inherited;
}

// What becomes of a member that the file and the one it extends both have: lists follow the
// inherited ones, symbols and other single things stand in their place.
template <typename T>
void put_under(std::vector<T>& own, const std::vector<T>& inherited) {
    own.insert(own.begin(), inherited.begin(), inherited.end());
}
template <typename T>
void put_under(std::map<std::string, T>& own, const std::map<std::string, T>& inherited) {
    own.insert(inherited.begin(), inherited.end());
}
template <typename T>
void put_under(std::optional<T>& own, const std::optional<T>& inherited) {
    own = own ? own : inherited;
}
void put_under(std::string& own, const std::string& inherited) {
    own = own.empty() ? inherited : own;
}
void put_under(bool& own, bool inherited) {
    own = own || inherited;
}

/// Every member that the type names as inherited.
template <typename Whole>
void put_members_under(Whole& own, const Whole& inherited) {
    std::apply(
        [&](auto&... mine) {
            std::apply([&](const auto&... theirs) { (put_under(mine, theirs), ...); },
                       Whole::inherited(inherited));
        },
        Whole::inherited(own));
}

/// `uses none` drops what the base uses.
void inherit_uses(std::vector<std::string>& own, const std::vector<std::string>& inherited) {
    if (std::erase(own, "none") == 0) {
        put_under(own, inherited);
    }
}

void inherit_ats(std::vector<At>& own, std::vector<At> inherited) {
    std::erase_if(inherited,
                  [&](const At& at) { return find_item(own, at.prefix, &At::prefix) != nullptr; });
    put_under(own, inherited);
}

/// Keys of the child stand in the place of the inherited ones of their name.
void inherit_keys(std::vector<KeyRule>& own, const std::vector<KeyRule>& inherited) {
    std::vector<KeyRule> all;
    std::set<std::string> placed;
    for (const KeyRule& key : inherited) {
        if (find_item(own, key.name, &KeyRule::name) == nullptr) {
            all.push_back(key);
        } else if (placed.insert(key.name).second) {
            append_all(all, filter_list(
                                own, [&](const KeyRule& child) { return child.name == key.name; }));
        }
    }
    append_all(all,
               filter_list(own, [&](const KeyRule& key) { return !placed.contains(key.name); }));
    own = std::move(all);
}

}  // namespace

Declaration inherit(Declaration base, Declaration child) {
    child.blocks = settled(std::move(base.blocks), std::move(child.blocks));
    child.modules = settled(std::move(base.modules), std::move(child.modules));
    child.top = settled(std::move(base.top), std::move(child.top.edits));
    child.module_top = settled(std::move(base.module_top), std::move(child.module_top.edits));
    inherit_ats(child.ats, std::move(base.ats));
    put_under(child.places, base.places);
    put_members_under(child.recipe, base.recipe);
    inherit_uses(child.recipe.dialects, base.recipe.dialects);
    child.recipe.depth = base.recipe.depth + 1;
    put_members_under(child.dialect, base.dialect);
    inherit_keys(child.dialect.keys, base.dialect.keys);
    return child;
}

namespace {

Line placed(const Line& line, const At& at, const Pattern& prefix) {
    Line full = line;
    full.name = concatenated(prefix, line.name, line.origin);
    full.logical = at.logical + line.logical;
    full.optional = line.optional || at.optional;
    full.together = line.together || (at.together && !line.optional);
    for (std::string& first : full.firsts) {
        first = prefix.text + first;
    }
    if (!at.first.empty()) {
        full.firsts.push_back(at.first + line.name.text);
    }
    full.stack = at.stacked;
    return full;
}

/// Layouts with a leading axis, by that and their text: lines of many names have the same.
using StackedLayouts = std::map<std::string, layout::Layout>;

/// The form of a line whose capture is a leading axis instead.
Line stacked(const Line& line, const At& at, const Pattern& prefix, StackedLayouts& known) {
    for_each_node(line.condition, [&](const Expr& node) {
        if (node.op == Op::name && node.name == at.stacked) {
            refuse(line.origin, "the condition uses " + at.stacked +
                                    ", which has no single value in the stacked form");
        }
    });
    Line full = placed(line, at, prefix);
    full.is_stacked = true;
    layout::Layout& layout = known[at.stacked + " " + line.layout.text];
    if (layout.dims.empty()) {
        layout = at_origin(line.origin,
                           [&] { return layout::with_leading_axis(line.layout, at.stacked); });
    }
    full.layout = layout;
    if (full.join && !full.join->flat) {
        for (JoinStep& step : full.join->steps) {
            step.dim += step.stack ? 0 : 1;
        }
    }
    return full;
}

/// Each line of a block below its prefix, which is parsed once for all of them.
void place(const std::vector<Line>& block, const At& at, StackedLayouts& known,
           std::vector<Line>& out) {
    const Pattern prefix = parse_pattern(at.prefix, at.origin);
    const Pattern stack =
        at.stacked.empty()
            ? Pattern()
            : parse_pattern(without_capture(at.prefix, at.stacked, at.origin), at.origin);
    for (const Line& line : block) {
        out.push_back(placed(line, at, prefix));
        if (!at.stacked.empty()) {
            out.push_back(stacked(line, at, stack, known));
        }
    }
}

/// Lines are large: a vector that grows would take thrice their memory.
std::size_t n_expanded(const std::vector<At>& ats, const Blocks& blocks) {
    std::size_t n = 0;
    for (const At& at : ats) {
        auto* const block = find_value(blocks, at.block);
        n += block == nullptr ? 0 : block->lines.size() * (at.stacked.empty() ? 1 : 2);
    }
    return std::min(n, kMostLines);
}

}  // namespace

std::vector<Line> expand(const Declaration& whole, const Blocks& blocks, std::vector<Line> lines) {
    lines.reserve(lines.size() + n_expanded(whole.ats, blocks));
    StackedLayouts known;
    for (const At& at : whole.ats) {
        const auto block = blocks.find(at.block);
        if (block == blocks.end()) {
            if (!whole.blocks.contains(at.block)) {
                refuse(at.origin, "there is no block '" + at.block + "'");
            }
            continue;
        }
        place(block->second.lines, at, known, lines);
        if (lines.size() > kMostLines) {
            refuse(at.origin, "more than 100000 lines in all");
        }
    }
    return lines;
}

namespace {

/// The base, and behind its statements those of the files that the declaration takes `with` it.
Declaration with_parts(const Declarations& entries, const Declaration& declaration,
                       Declaration base) {
    for (const std::string& name : declaration.parts) {
        const FoundDeclaration* const part = find_in(entries, name, false);
        if (part == nullptr) {
            refuse(declaration.origin, "there is no recipe '" + name + "' to take with it");
        }
        Declaration taken = part->declaration();
        if (!taken.extends.empty() || !taken.parts.empty()) {
            refuse(declaration.origin,
                   "the recipe '" + name + "' is no part: it extends another one");
        }
        base = inherit(std::move(base), std::move(taken));
    }
    return base;
}

/// The declaration with everything it extends.
Declaration resolve(const Declarations& entries, const FoundDeclaration& entry,
                    std::vector<std::string> above = {}) {
    Declaration declaration = entry.declaration();
    if (contains(above, declaration.name)) {
        refuse(declaration.origin, "'" + declaration.name + "' extends itself");
    }
    if (above.size() > kDeepestExtends) {
        refuse(entries.find(above.front())->second.origin, "more than 8 'extends' in a row");
    }
    Declaration base;
    const bool is_root = declaration.extends.empty();
    if (!is_root) {
        const auto* const found = find_in(entries, declaration.extends, declaration.is_dialect);
        if (found == nullptr) {
            refuse(declaration.origin, std::string("there is no ") +
                                           (declaration.is_dialect ? "dialect" : "recipe") + " '" +
                                           declaration.extends + "' to extend");
        }
        above.push_back(declaration.name);
        base = resolve(entries, *found, std::move(above));
    }
    base = with_parts(entries, declaration, std::move(base));
    Declaration whole = inherit(std::move(base), std::move(declaration));
    whole.recipe.depth = is_root ? 0 : whole.recipe.depth;
    return whole;
}

/// The lines with the names under which a family keeps inherited ones: the longest `place` rule's.
std::vector<Line> placed(std::vector<Line> lines, const std::vector<RenameRule>& places) {
    for (Line& line : lines) {
        const std::string name = renamed_by(places, line.name.text);
        if (name != line.name.text) {
            line.name = parse_pattern(name, line.origin);
        }
    }
    return lines;
}

}  // namespace

void declare(Declarations& entries, const RecipeFile& source, bool is_extra) {
    // A unit test parses the built-in ones whole.
    const Declaration declaration = is_extra ? parse_source(source) : parse_head(source);
    auto* const found = find_value(entries, declaration.name);
    if (found != nullptr && found->is_extra == is_extra) {
        refuse(
            declaration.origin,
            "'" + declaration.name + "' is declared a second time; the first is " + found->origin);
    }
    std::vector<std::string> bases = declaration.parts;
    bases.push_back(declaration.extends);
    auto kept = is_extra ? std::make_shared<const RecipeFile>(source)
                         : std::shared_ptr<const RecipeFile>(std::shared_ptr<void>(), &source);
    entries.insert_or_assign(declaration.name,
                             FoundDeclaration{declaration.is_dialect, declaration.origin,
                                              declaration.recipe.match, std::move(kept), is_extra,
                                              std::move(bases), declaration.dialect.has_own_names});
}

bool rests_on(const Declarations& entries, std::string_view name,
              bool FoundDeclaration::*is_sought) {
    std::set<std::string_view> seen;
    std::vector<std::string_view> open{name};
    while (!open.empty()) {
        const auto entry = entries.find(open.back());
        open.pop_back();
        if (entry == entries.end() || !seen.insert(entry->first).second) {
            continue;
        }
        if (entry->second.*is_sought) {
            return true;
        }
        append_all(open, entry->second.bases);
    }
    return false;
}

const FoundDeclaration* find_in(const Declarations& entries, std::string_view name,
                                bool is_dialect) {
    auto* const found = find_value(entries, name);
    const bool is_there = found != nullptr && found->is_dialect == is_dialect;
    return is_there ? found : nullptr;
}

Recipe recipe_of(const Declarations& entries, const FoundDeclaration& entry) {
    Declaration whole = resolve(entries, entry);
    Recipe recipe = std::move(whole.recipe);
    recipe.name = whole.name;
    recipe.origin = whole.origin;
    recipe.extends = whole.extends;
    recipe.hub = placed(expand(whole, whole.blocks, std::move(whole.top.lines)), whole.places);
    recipe.module =
        placed(expand(whole, whole.modules, std::move(whole.module_top.lines)), whole.places);
    recipe.is_extra = entry.is_extra;
    for (const std::string& used : recipe.dialects) {
        if (find_in(entries, used, true) == nullptr) {
            refuse(recipe.origin, "there is no dialect '" + used + "' to use");
        }
    }
    return recipe;
}

Declaration resolved_dialect(const Declarations& entries, const FoundDeclaration& entry) {
    Declaration whole = resolve(entries, entry);
    whole.dialect.name = whole.name;
    whole.dialect.origin = whole.origin;
    whole.dialect.extends = whole.extends;
    return whole;
}

Dialect with_lines(const Declaration& whole) {
    Dialect dialect = whole.dialect;
    dialect.store = expand(whole, whole.blocks, whole.top.lines);
    return dialect;
}

void keep_lines_for(const Recipe& recipe, Declaration& dialect) {
    std::set<std::string_view> logicals;
    for (const auto* lines : {&recipe.hub, &recipe.module}) {
        for (const Line& line : *lines) {
            logicals.insert(line.logical);
        }
    }
    std::set<std::string> names;
    const auto add_names = [&](const std::vector<Line>& lines, const std::string& logical) {
        for (const Line& line : lines) {
            if (logicals.contains(logical + line.logical)) {
                names.insert(line.name.text);
            }
        }
    };
    add_names(dialect.top.lines, "");
    for (const At& at : dialect.ats) {
        if (auto* const block = find_value(dialect.blocks, at.block)) {
            add_names(block->lines, at.logical);
        }
    }
    const auto keep = [&](std::vector<Line>& lines) {
        std::erase_if(lines, [&](const Line& line) { return !names.contains(line.name.text); });
    };
    keep(dialect.top.lines);
    for (auto& [name, block] : dialect.blocks) {
        keep(block.lines);
    }
}

}  // namespace shardweld::models
