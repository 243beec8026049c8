// Visits every value of a pickle once, however it is shared or tied in circles.
// Knows nothing of what the values mean.
#pragma once

#include <unordered_set>
#include <vector>

#include "formats/containers/pickle.hpp"

namespace shardweld::fuzz {

template <typename Visit>
void walk(const formats::PickleValue& root, const Visit& visit) {
    std::vector<const formats::PickleValue*> todo = {&root};
    std::unordered_set<const formats::PickleValue*> seen;
    while (!todo.empty()) {
        const formats::PickleValue* const value = todo.back();
        todo.pop_back();
        if (value == nullptr || !seen.insert(value).second) {
            continue;
        }
        visit(*value);
        todo.insert(todo.end(), value->elements().begin(), value->elements().end());
        todo.insert(todo.end(), value->arguments().begin(), value->arguments().end());
        for (const auto* const part : {value->callee(), value->state(), value->persistent_id()}) {
            todo.push_back(part);
        }
        for (std::size_t i = 0; i < value->pair_count(); ++i) {
            todo.push_back(&value->key(i));
            todo.push_back(&value->value(i));
        }
    }
}

}  // namespace shardweld::fuzz
