#include "inherit.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "shardweld/error.hpp"

#include "expr.hpp"

namespace shardweld::models {

namespace {

std::size_t erase_named(std::vector<Line>& lines, const std::string& name) {
    return std::erase_if(lines, [&](const Line& line) { return line.name.text == name; });
}

void guard(std::vector<Line>& lines, const Edit& edit) {
    bool is_met = false;
    for (Line& line : lines) {
        if (line.name.text == edit.name) {
            line.condition = conjunction_of(line.condition, edit.condition);
            is_met = true;
        }
    }
    if (!is_met) {
        throw Error(ErrorCode::usage,
                    edit.origin + ": no inherited line '" + edit.name + "' to guard");
    }
}

/// Applies a file's edits to the lines it inherits; its own lines follow the inherited ones.
std::vector<Line> edited(std::vector<Line> inherited, std::vector<Edit> edits) {
    std::vector<Line> own;
    for (Edit& edit : edits) {
        switch (edit.kind) {
            case Edit::Kind::set:
                erase_named(inherited, edit.name);
                own.push_back(std::move(edit.line));
                break;
            case Edit::Kind::guard:
                guard(inherited, edit);
                break;
            case Edit::Kind::remove:
                if (erase_named(inherited, edit.name) == 0) {
                    throw Error(ErrorCode::usage, edit.origin + ": no inherited line '" +
                                                      edit.name + "' to leave out");
                }
                break;
        }
    }
    std::move(own.begin(), own.end(), std::back_inserter(inherited));
    return inherited;
}

std::map<std::string, std::vector<Line>> edited_blocks(
    std::map<std::string, std::vector<Line>> inherited,
    std::map<std::string, std::vector<Edit>> edits) {
    for (auto& [name, list] : edits) {
        inherited[name] = edited(std::move(inherited[name]), std::move(list));
    }
    return inherited;
}

template <typename T>
void put_before(std::vector<T>& list, const std::vector<T>& inherited) {
    list.insert(list.begin(), inherited.begin(), inherited.end());
}

/// A symbol of the child hides inherited ones of its name, whatever statement defined them.
void inherit_symbols(Declaration& child, const Declaration& base) {
    using List = std::map<std::string, Definition> Declaration::*;
    constexpr std::array<List, 4> kLists = {&Declaration::lets, &Declaration::indices,
                                            &Declaration::flags, &Declaration::defaults};
    std::set<std::string> own;
    for (const List list : kLists) {
        for (const auto& [name, definition] : child.*list) {
            own.insert(name);
        }
    }
    for (const List list : kLists) {
        for (const auto& [name, definition] : base.*list) {
            if (!own.contains(name)) {
                (child.*list).emplace(name, definition);
            }
        }
    }
    for (const auto& [axis, parts] : base.fuse) {
        child.fuse.try_emplace(axis, parts);
    }
}

/// `uses none` drops what the base uses.
void inherit_uses(std::vector<std::string>& own, const std::vector<std::string>& inherited) {
    if (std::erase(own, "none") == 0) {
        put_before(own, inherited);
    }
}

void inherit_ats(Declaration& child, const Declaration& base) {
    std::vector<At> inherited;
    for (const At& at : base.ats) {
        if (std::none_of(child.ats.begin(), child.ats.end(),
                         [&](const At& own) { return own.prefix == at.prefix; })) {
            inherited.push_back(at);
        }
    }
    put_before(child.ats, inherited);
}

/// Keys of the child stand in the place of the inherited ones of their name.
void inherit_keys(std::vector<KeyRule>& own, const std::vector<KeyRule>& inherited) {
    const std::vector<KeyRule> of_child = own;
    std::vector<KeyRule> all;
    for (const KeyRule& key : inherited) {
        const bool is_replaced = std::ranges::count(of_child, key.name, &KeyRule::name) > 0;
        const bool is_first = std::ranges::count(all, key.name, &KeyRule::name) == 0;
        if (!is_replaced) {
            all.push_back(key);
        } else if (is_first) {
            std::ranges::copy_if(of_child, std::back_inserter(all),
                                 [&](const KeyRule& child) { return child.name == key.name; });
        }
    }
    std::erase_if(own, [&](const KeyRule& key) {
        return std::ranges::count(all, key.name, &KeyRule::name) > 0;
    });
    std::ranges::copy(own, std::back_inserter(all));
    own = std::move(all);
}

}  // namespace

FullDeclaration inherit(FullDeclaration base, Declaration child) {
    FullDeclaration whole;
    whole.depth = base.depth + 1;
    whole.blocks = edited_blocks(std::move(base.blocks), std::exchange(child.blocks, {}));
    whole.modules = edited_blocks(std::move(base.modules), std::exchange(child.modules, {}));
    whole.lines = edited(std::move(base.lines), std::exchange(child.lines, {}));
    inherit_symbols(child, base.declaration);
    inherit_ats(child, base.declaration);
    put_before(child.aliases, base.declaration.aliases);
    inherit_uses(child.uses, base.declaration.uses);
    put_before(child.same, base.declaration.same);
    put_before(child.ignore, base.declaration.ignore);
    put_before(child.renames, base.declaration.renames);
    put_before(child.places, base.declaration.places);
    put_before(child.eithers, base.declaration.eithers);
    put_before(child.passes, base.declaration.passes);
    put_before(child.needs, base.declaration.needs);
    put_before(child.linear, base.declaration.linear);
    child.has_own_names = child.has_own_names || base.declaration.has_own_names;
    child.lora = child.lora ? child.lora : base.declaration.lora;
    child.written = child.written ? child.written : base.declaration.written;
    child.rope_factors =
        child.rope_factors.empty() ? base.declaration.rope_factors : child.rope_factors;
    inherit_keys(child.keys, base.declaration.keys);
    put_before(child.config, base.declaration.config);
    put_before(child.claims, base.declaration.claims);
    put_before(child.refusals, base.declaration.refusals);
    put_before(child.facts, base.declaration.facts);
    put_before(child.givens, base.declaration.givens);
    whole.declaration = std::move(child);
    return whole;
}

}  // namespace shardweld::models
