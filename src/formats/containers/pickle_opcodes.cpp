// The table from opcode to handler, and the opcodes that steer or are refused.
#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

constexpr unsigned kHighestProtocol = 5;

std::string hex_text(unsigned value) {
    constexpr std::string_view kHexDigits = "0123456789abcdef";
    return {'0', 'x', kHexDigits[(value >> 4U) & 15U], kHexDigits[value & 15U]};
}

// Refused opcodes by name: they import, call or fetch by other means than GLOBAL and REDUCE.
std::string_view refused_name(unsigned opcode) {
    switch (opcode) {
        case 'P':
            return "PERSID";
        case 'i':
            return "INST";
        case 'o':
            return "OBJ";
        case 0x82:
        case 0x83:
        case 0x84:
            return "EXT";
        default:
            return "NEXT_BUFFER";
    }
}

}  // namespace

const PickleMachine::Handlers& PickleMachine::handlers() {
    static const Handlers table_of_all = [] {
        Handlers table{};
        table.fill(&PickleMachine::on_unknown);
        add_scalars(table);
        add_containers(table);
        add_objects(table);
        add_refused(table);
        return table;
    }();
    return table_of_all;
}

void PickleMachine::add_scalars(Handlers& table) {
    table['N'] = &PickleMachine::on_none;
    table[0x88] = &PickleMachine::on_true;
    table[0x89] = &PickleMachine::on_false;
    table['I'] = &PickleMachine::on_int;
    table['L'] = &PickleMachine::on_long;
    table['F'] = &PickleMachine::on_float;
    table['J'] = &PickleMachine::on_binint;
    table['K'] = &PickleMachine::on_binint1;
    table['M'] = &PickleMachine::on_binint2;
    table[0x8a] = &PickleMachine::on_long1;
    table[0x8b] = &PickleMachine::on_long4;
    table['G'] = &PickleMachine::on_binfloat;
    table['S'] = &PickleMachine::on_string;
    table['V'] = &PickleMachine::on_unicode;
    table['T'] = &PickleMachine::on_binstring;
    table['U'] = &PickleMachine::on_short_binstring;
    table['X'] = &PickleMachine::on_binunicode;
    table[0x8c] = &PickleMachine::on_short_binunicode;
    table[0x8d] = &PickleMachine::on_binunicode8;
    table['C'] = &PickleMachine::on_short_binbytes;
    table['B'] = &PickleMachine::on_binbytes;
    table[0x8e] = &PickleMachine::on_binbytes8;
    table[0x96] = &PickleMachine::on_binbytes8;  // BYTEARRAY8
}

void PickleMachine::add_containers(Handlers& table) {
    table[']'] = &PickleMachine::on_empty_list;
    table['}'] = &PickleMachine::on_empty_dict;
    table[')'] = &PickleMachine::on_empty_tuple;
    table[0x8f] = &PickleMachine::on_empty_set;
    table['l'] = &PickleMachine::on_list;
    table['d'] = &PickleMachine::on_dict;
    table['t'] = &PickleMachine::on_tuple;
    table[0x85] = &PickleMachine::on_tuple1;
    table[0x86] = &PickleMachine::on_tuple2;
    table[0x87] = &PickleMachine::on_tuple3;
    table[0x91] = &PickleMachine::on_frozenset;
    table['a'] = &PickleMachine::on_append;
    table['e'] = &PickleMachine::on_appends;
    table[0x90] = &PickleMachine::on_appends;  // ADDITEMS
    table['s'] = &PickleMachine::on_setitem;
    table['u'] = &PickleMachine::on_setitems;
    table['('] = &PickleMachine::on_mark;
    table['0'] = &PickleMachine::on_pop;
    table['1'] = &PickleMachine::on_pop_mark;
    table['2'] = &PickleMachine::on_dup;
    table['p'] = &PickleMachine::on_put;
    table['q'] = &PickleMachine::on_binput;
    table['r'] = &PickleMachine::on_long_binput;
    table[0x94] = &PickleMachine::on_memoize;
    table['g'] = &PickleMachine::on_get;
    table['h'] = &PickleMachine::on_binget;
    table['j'] = &PickleMachine::on_long_binget;
}

void PickleMachine::add_objects(Handlers& table) {
    table['c'] = &PickleMachine::on_global;
    table[0x93] = &PickleMachine::on_stack_global;
    table['R'] = &PickleMachine::on_reduce;
    table[0x81] = &PickleMachine::on_newobj;
    table[0x92] = &PickleMachine::on_newobj_ex;
    table['b'] = &PickleMachine::on_build;
    table['Q'] = &PickleMachine::on_binpersid;
    table[0x80] = &PickleMachine::on_proto;
    table[0x95] = &PickleMachine::on_frame;
    table['.'] = &PickleMachine::on_stop;
}

void PickleMachine::add_refused(Handlers& table) {
    for (const unsigned opcode : {0x50U, 0x69U, 0x6fU, 0x82U, 0x83U, 0x84U, 0x97U, 0x98U}) {
        table[opcode] = &PickleMachine::on_refused;
    }
}

void PickleMachine::on_proto() {
    const auto protocol = number<std::uint8_t>("PROTO");
    if (protocol > kHighestProtocol) {
        fail("protocol " + std::to_string(protocol) + ", known are 0 to 5");
    }
}

void PickleMachine::on_frame() {
    const auto size = number<std::uint64_t>("FRAME");
    // Only checked: frames say how to read ahead, not what the opcodes mean.
    const std::size_t start = position_;
    take(size, "FRAME");
    position_ = start;
}

void PickleMachine::on_stop() {
    pickle_.root_ = pop();
    if (marks_.size() > 1) {
        fail("STOP behind an open mark");
    }
    pickle_.consumed_ = position_;
    done_ = true;
}

void PickleMachine::on_refused() {
    const auto opcode = static_cast<unsigned char>(bytes_[opcode_at_]);
    fail("disallowed opcode " + std::string(refused_name(opcode)) + " (" + hex_text(opcode) +
         "): no trainer writes it");
}

void PickleMachine::on_unknown() {
    fail("unknown opcode " + hex_text(static_cast<unsigned char>(bytes_[opcode_at_])));
}

}  // namespace shardweld::formats
