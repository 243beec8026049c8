#include "common_state.hpp"

#include <utility>

namespace shardweld::reshape {

using outputs::PlainKind;
using outputs::PlainValue;

PlainValue dictionary(std::vector<PlainValue::Entry> entries) {
    PlainValue value;
    value.kind = PlainKind::dictionary;
    value.entries = std::move(entries);
    return value;
}

PlainValue boolean(bool value) {
    PlainValue plain;
    plain.kind = PlainKind::boolean;
    plain.integer = value ? 1 : 0;
    return plain;
}

PlainValue integer(Index value) {
    PlainValue plain;
    plain.kind = PlainKind::integer;
    plain.integer = value;
    return plain;
}

PlainValue real(double value) {
    PlainValue plain;
    plain.kind = PlainKind::real;
    plain.real = value;
    return plain;
}

PlainValue text(std::string value) {
    PlainValue plain;
    plain.kind = PlainKind::text;
    plain.text = std::move(value);
    return plain;
}

PlainValue list(std::vector<PlainValue> items) {
    PlainValue plain;
    plain.kind = PlainKind::list;
    plain.items = std::move(items);
    return plain;
}

PlainValue state_of_release() {
    return dictionary({{"checkpoint_version", real(3.0)}, {"iteration", integer(0)}});
}

outputs::SideFile release_tracker() {
    return {"latest_checkpointed_iteration.txt", "release"};
}

}  // namespace shardweld::reshape
