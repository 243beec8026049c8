// Objects that are taken out of a pickle while it is read: what they were made of is used again.
#include <algorithm>
#include <bit>

#include "pickle_machine.hpp"

namespace shardweld::formats {

// Without the tuple's own memory where nothing else refers to it.
PickleValue* PickleMachine::only_part(PickleValue* tuple) {
    PickleValue* const part = tuple->parts[0];
    if ((tuple->detail & pickle_detail::kShared) == 0) {
        release_parts(*tuple);
        arena_.release(tuple, sizeof(PickleValue));
    }
    return part;
}

void PickleMachine::release_parts(const PickleValue& value) {
    const bool is_grown = (value.detail & pickle_detail::kGrown) != 0;
    const std::size_t capacity = is_grown ? std::bit_ceil(std::size_t{value.size}) : value.size;
    if (capacity != 0) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): the parts are pointers
        arena_.release(value.parts, capacity * sizeof(PickleValue*));
    }
}

// A value that is not shared has one reference: the one that goes now. So what hangs on it is a
// tree, no deeper than values are nested.
void PickleMachine::release(PickleValue* value) {
    if (value == nullptr || (value->detail & pickle_detail::kShared) != 0) {
        return;
    }
    switch (value->kind) {
        case PickleKind::tuple:
        case PickleKind::list:
        case PickleKind::set:
        case PickleKind::dict:
            std::for_each_n(value->parts, value->size,
                            [this](PickleValue* part) { release(part); });
            release_parts(*value);
            break;
        case PickleKind::object:
            for (PickleValue* const part : {value->object->callee, value->object->arguments,
                                            value->object->state, value->object->extra}) {
                release(part);
            }
            arena_.release(value->object, sizeof(PickleObject));
            break;
        default:
            break;
    }
    arena_.release(value, sizeof(PickleValue));
}

void PickleMachine::reduce(PickleValue& object) {
    const auto at =
        std::find_if(reduced_classes_.begin(), reduced_classes_.end(),
                     [&object](const auto& entry) { return entry.first == object.object->callee; });
    const auto answer = reducer_->reduce(at->second, object);
    if (!answer) {
        return;
    }
    PickleObject* const parts = object.object;
    object.kind = PickleKind::reduced;
    object.size = at->second;
    object.integer = *answer;
    for (PickleValue* const part : {parts->arguments, parts->state, parts->extra}) {
        release(part);
    }
    arena_.release(parts, sizeof(PickleObject));
}

}  // namespace shardweld::formats
