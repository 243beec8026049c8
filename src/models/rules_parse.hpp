// The statements that state rules: `at`, `alias`, `same`, `ignore`, `rename`, `place`, `either`,
// `config`, `claim`, `refuse`, `lora`, `key`, `writes`.
#pragma once

#include "declaration.hpp"
#include "scanner.hpp"

namespace shardweld::models {

void parse_at(Scanner& in, Declaration& out);
void parse_alias(Scanner& in, Declaration& out);
void parse_same(Scanner& in, Declaration& out);
void parse_ignore(Scanner& in, Declaration& out);
void parse_rename(Scanner& in, Declaration& out);
void parse_place(Scanner& in, Declaration& out);
void parse_either(Scanner& in, Declaration& out);
void parse_config(Scanner& in, Declaration& out);
void parse_claim(Scanner& in, Declaration& out);
void parse_refuse(Scanner& in, Declaration& out);
void parse_lora(Scanner& in, Declaration& out);
void parse_key(Scanner& in, Declaration& out);
void parse_writes(Scanner& in, Declaration& out);

}  // namespace shardweld::models
