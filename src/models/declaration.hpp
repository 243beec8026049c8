// One recipe or dialect file, statement by statement, before `extends` and `at` are worked out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipe.hpp"

namespace shardweld::models {

/// A line of a block, or a change to inherited lines of a name.
struct Edit {
    enum class Kind { set, guard, remove };
    Kind kind = Kind::set;
    std::string name;   ///< pattern text, no alternatives
    Line line;          ///< for set; name and logical are as in the block
    ExprPtr condition;  ///< for guard
    std::string origin;
};

/// `at PREFIX = LOGICAL_PREFIX BLOCK`: where a block's lines are.
struct At {
    std::string prefix;
    std::string logical;
    std::string block;
    std::string stacked;  ///< the capture that may be a leading axis instead, "" if none
    bool optional = false;
    bool together = false;  ///< its required lines are all stored or none of them
    std::string origin;
};

struct Declaration {
    bool is_dialect = false;
    std::string name;
    std::string origin;  ///< "llama.recipe:1"
    std::string extends;
    std::vector<std::string>
        parts;  ///< `with`: files whose statements come behind those of `extends`
    std::vector<std::string> uses;
    std::vector<std::string> families;
    std::vector<std::string> verified;
    ExprPtr match;
    std::map<std::string, std::vector<Edit>> blocks;
    std::map<std::string, std::vector<Edit>> modules;
    std::vector<Edit> lines;  ///< `hub` or `store`
    std::vector<At> ats;
    std::vector<AliasRule> aliases;
    std::vector<SameRule> same;
    std::vector<IgnoreRule> ignore;
    std::vector<ConfigEdit> config;
    std::vector<ClaimRule> claims;
    std::vector<RefuseRule> refusals;
    std::map<std::string, Definition> lets;
    std::map<std::string, Definition> indices;
    std::map<std::string, Definition> flags;
    std::map<std::string, Definition> defaults;
    std::vector<std::string> facts;
    std::vector<std::string> givens;
    std::map<std::string, std::vector<std::string>> fuse;
    std::vector<RenameRule> renames;
    std::vector<RenameRule> places;
    std::vector<RenameRule> eithers;
    std::vector<std::string> passes;
    std::vector<NeedsRule> needs;
    std::vector<std::vector<std::string>> linear;
    bool has_own_names = false;
    std::optional<LoraNames> lora;
    std::optional<WrittenAs> written;
    std::vector<KeyRule> keys;
    std::string rope_factors;
};

/// Parses one file. Error(usage) naming file, line and column; limits: 1 MB, 10 000 lines, 4096
/// characters a line.
Declaration parse_source(const RecipeFile& source);

/// What a file without fault says of its place among the others: name, match, extends and with.
/// Nothing else of it is looked at, which takes a hundredth of the time.
Declaration parse_head(const RecipeFile& source);

}  // namespace shardweld::models
