// Globals, objects and persistent ids of a pickle.
#include <algorithm>

#include "shardweld/core/text.hpp"

#include "pickle_globals.hpp"
#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMaxNameBytes = 512;

bool is_plain_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c != '\x7f'; });
}

bool is_latin1(std::string_view encoding) {
    return encoding == "latin1" || encoding == "latin-1" || encoding == "iso-8859-1";
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; });
}

}  // namespace

void PickleMachine::on_global() {
    const std::string_view module = line("GLOBAL");
    push_global(module, line("GLOBAL"));
}

void PickleMachine::on_stack_global() {
    const PickleValue* const name = pop();
    const PickleValue* const module = pop();
    if (name->kind != PickleKind::text || module->kind != PickleKind::text) {
        fail("STACK_GLOBAL needs two texts");
    }
    push_global(module->text(), name->text());
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
    if (!is_plain_name(module) || !is_plain_name(name)) {
        fail("'" + printable(module, 60) + " " + printable(name, 60) + "' is no name of a global");
    }
    name_.assign(module).append(" ").append(name);
    const auto known = globals_.find(name_);
    if (known != globals_.end()) {
        push(known->second);
        return;
    }
    if (is_denied_global(module, name)) {
        fail("disallowed global " + printable(module) + "." + printable(name) +
             "; the file tries to run code and was not made by a trainer");
    }
    const std::string_view text = pickle_.texts_.emplace_back(name_);
    PickleValue* const global = fresh_text(PickleKind::global, text);
    global->detail = static_cast<std::uint8_t>(
        static_cast<std::uint8_t>(special_global(module, name)) | pickle_detail::kShared);
    if (const auto number = reducer_ == nullptr ? std::nullopt : reducer_->takes(text)) {
        global->detail |= pickle_detail::kReduced;
        reduced_classes_.emplace_back(global, *number);
    }
    globals_.emplace(text, global);
    if (!is_known_global(module, name)) {
        pickle_.inert_.emplace(text);
    }
    push(global);
}

PickleValue* PickleMachine::fresh_object(PickleValue* callee, PickleValue* arguments) {
    if (is_skipped(callee) || is_skipped(arguments)) {
        return skipped_;
    }
    if (callee->kind != PickleKind::global && callee->kind != PickleKind::object) {
        fail(in_words(callee->kind) + " is called as a class or function");
    }
    if (arguments->kind != PickleKind::tuple) {
        fail("the arguments of " + printable(callee->class_name()) + " are " +
             in_words(arguments->kind) + ", expected a tuple");
    }
    PickleValue* const value = fresh(PickleKind::object);
    if (!is_skipped(value)) {
        value->object = new (arena_.allocate(sizeof(PickleObject)))
            PickleObject{callee, arguments, nullptr, nullptr};
        nest(*value, *callee);
        nest(*value, *arguments);
    }
    return value;
}

void PickleMachine::on_reduce() {
    PickleValue* const arguments = pop();
    PickleValue* const callee = pop();
    PickleValue* known = nullptr;
    if (callee->kind == PickleKind::global && arguments->kind == PickleKind::tuple) {
        known = reduce_known(*callee, arguments);
    }
    push(known != nullptr ? known : fresh_object(callee, arguments));
}

PickleValue* PickleMachine::reduce_known(const PickleValue& callee, PickleValue* arguments) {
    const std::size_t count = arguments->size;
    PickleValue* const* const given = arguments->parts;
    switch (static_cast<SpecialGlobal>(callee.detail & pickle_detail::kSpecial)) {
        case SpecialGlobal::none:
            return nullptr;
        case SpecialGlobal::size:
            if (count != 1 || given[0]->kind != PickleKind::tuple) {
                return nullptr;
            }
            return reducer_ == nullptr ? given[0] : only_part(arguments);
        case SpecialGlobal::encode: {
            const bool is_text = count == 2 && given[0]->kind == PickleKind::text;
            const bool is_bytes = is_text && is_latin1(given[1]->text()) && !skipping_;
            return is_bytes ? decode_latin1(given[0]->text()) : nullptr;
        }
        case SpecialGlobal::reconstructor:
            // (class, base, base's state), as protocols 0 and 1 write plain objects.
            return count == 3 && !is_skipped(given[0]) ? fresh_object(given[0], empty_tuple_)
                                                       : nullptr;
    }
    return nullptr;
}

// Protocol 2 has no bytes: Python 3 writes them as text whose code points are the byte values.
PickleValue* PickleMachine::decode_latin1(std::string_view text) {
    // Kept per text, so that a large one named again and again is decoded once.
    PickleValue*& value = latin1_[text.data()];
    if (value != nullptr) {
        return value;
    }
    if (is_ascii(text)) {
        value = fresh_text(PickleKind::bytes, text);
        value->detail |= pickle_detail::kShared;
        return value;
    }
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            decoded.push_back(static_cast<char>(lead));
            continue;
        }
        const bool has_next = i + 1 < text.size();
        const unsigned next = has_next ? static_cast<unsigned char>(text[++i]) : 0U;
        if ((lead != 0xC2 && lead != 0xC3) || (next & 0xC0U) != 0x80U) {
            fail("text of _codecs.encode is not Latin-1");
        }
        decoded.push_back(static_cast<char>(((lead & 0x03U) << 6U) | (next & 0x3FU)));
    }
    value = fresh_text(PickleKind::bytes, pickle_.texts_.emplace_back(std::move(decoded)));
    value->detail |= pickle_detail::kShared;
    return value;
}

void PickleMachine::on_newobj() {
    PickleValue* const arguments = pop();
    PickleValue* const callee = pop();
    push(fresh_object(callee, arguments));
}

void PickleMachine::on_newobj_ex() {
    pop();  // keyword arguments: no class read here takes any
    on_newobj();
}

void PickleMachine::on_build() {
    PickleValue* const state = pop();
    PickleValue& target = top();
    if (is_skipped(&target)) {
        return;
    }
    if (target.kind != PickleKind::object) {
        fail("BUILD on " + in_words(target.kind));
    }
    nest(target, *state);
    target.object->state = state;
    if ((target.object->callee->detail & pickle_detail::kReduced) != 0 &&
        target.object->callee->kind == PickleKind::global) {
        reduce(target);
    }
}

void PickleMachine::on_binpersid() {
    PickleValue* const id = pop();
    PickleValue* const value = fresh(PickleKind::persistent);
    if (!is_skipped(value)) {
        nest(*value, *id);
        value->id = id;
        value->detail = pickle_detail::kShared;
        pickle_.persistents_.push_back(value);
    }
    push(value);
}

}  // namespace shardweld::formats
