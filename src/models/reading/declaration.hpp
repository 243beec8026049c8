// From a file's text to a recipe or dialect: parsed statement by statement, with everything that it
// extends and takes with it put in, and checked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.hpp"
#include "models/scanner.hpp"

namespace shardweld::models {

/// The ways in which a line changes a block that is inherited.
enum class EditKind { set, guard, remove };

/// A line of a block, or a change to inherited lines of its name.
struct Edit {
    EditKind kind = EditKind::set;
    Line line;  ///< names as in the block; of a guard with its condition, of a removal the name
};

/// `at PREFIX = LOGICAL_PREFIX BLOCK`: where a block's lines are.
struct At {
    std::string prefix;
    std::string logical;
    std::string block;
    std::string stacked;  ///< the capture that may be a leading axis instead, "" if none
    bool optional = false;
    bool together = false;  ///< its required lines are all stored or none of them
    std::string first;      ///< the first prefix, if this is another alternative
    std::string origin;
};

/// Lines below `block` or `module`, or those of `hub` and `store`.
struct Block {
    std::vector<Line> lines;  ///< final, once `inherit` has put in what is inherited
    std::vector<Edit> edits;  ///< as parsed; `inherit` uses them up
};
using Blocks = std::map<std::string, Block>;

/// One file, before `at` is worked out.
struct Declaration {
    bool is_dialect = false;
    std::string name;
    std::string origin;  ///< "llama.recipe:1"
    std::string extends;
    std::vector<std::string>
        parts;  ///< `with`: files whose statements come behind those of `extends`
    Blocks blocks;
    Blocks modules;
    Block top;         ///< `hub` or `store`
    Block module_top;  ///< `tree`
    std::vector<At> ats;
    std::vector<RenameRule> places;
    Recipe recipe;    ///< everything else of a recipe
    Dialect dialect;  ///< everything else of a dialect
};

/// A file as far as it is parsed.
struct Parsed {
    Declaration out;
    std::vector<Edit>* open = nullptr;  ///< of the block that indented lines belong to
};

/// Takes in one statement. Error(usage) naming file, line and column.
void parse_statement(Scanner& in, Parsed& file);

/// Appends the edits that one line of a block, or the rest of a `hub` or `store` statement, means:
/// one for each of its alternatives (in a recipe the first: only one name is written). Joins are
/// for dialects only.
void parse_line(Scanner& in, bool is_dialect, std::vector<Edit>& out);

/// Parses one file. Error(usage) naming file, line and column; limits: 1 MB, 10 000 lines, 4096
/// characters a line.
Declaration parse_source(const RecipeFile& source);

/// What a file without fault says of its place among the others (name, match, extends, with) and
/// of whose names it uses. Nothing else of it is looked at, which takes a hundredth of the time.
Declaration parse_head(const RecipeFile& source);

/// `child` on top of `base`, the lines of its blocks settled. Error(usage) for a guard or `without`
/// that meets no inherited line.
Declaration inherit(Declaration base, Declaration child);

/// All lines with their full names: the single ones, and behind them those of `at` blocks and
/// stacked forms. Error(usage) for an unknown block or a form that cannot be stacked.
std::vector<Line> expand(const Declaration& whole, const Blocks& blocks, std::vector<Line> lines);

/// What is kept of a file: all of them parsed would be megabytes, of which a run needs a few.
struct FoundDeclaration {
    bool is_dialect = false;
    std::string origin;  ///< "llama.recipe:1"
    ExprPtr match;
    std::shared_ptr<const RecipeFile> source;  ///< the built-in ones themselves
    bool is_extra = false;
    std::vector<std::string> bases = {};  ///< what it extends and takes with it
    bool has_own_names = false;           ///< its own statement `names recipe`

    /// The whole file, parsed.
    [[nodiscard]] Declaration declaration() const { return parse_source(*source); }
};

/// Adds a file, of a built-in one its head alone; an extra one is parsed whole and replaces a
/// built-in one of its name. Error(usage) for a second one of the same kind.
void declare(Declarations& entries, const RecipeFile& source, bool is_extra);

/// nullptr if there is none of that kind.
const FoundDeclaration* find_in(const Declarations& entries, std::string_view name,
                                bool is_dialect);

/// Whether something holds for a declaration or for one that it rests on: `is_extra`, that a file
/// of the user has a say in it.
bool rests_on(const Declarations& entries, std::string_view name,
              bool FoundDeclaration::*is_sought);

/// Error(usage) naming the file and line: a name that is not declared, a cycle, `extends` more than
/// 8 deep, or lines that do not fit what they change.
Recipe recipe_of(const Declarations& entries, const FoundDeclaration& entry);
/// A dialect with everything that it extends, its lines not yet expanded.
Declaration resolved_dialect(const Declarations& entries, const FoundDeclaration& entry);

/// A resolved dialect with its lines expanded.
Dialect with_lines(const Declaration& whole);

/// Keeps the lines of `store` and of blocks with the names of those for the recipe's logical
/// tensors.
void keep_lines_for(const Recipe& recipe, Declaration& dialect);

/// No axis of a line may be a capture of its name. Error(usage) naming the line.
void check_lines(const std::vector<Line>& lines);

/// A recipe and a dialect it meets: all lines of one (logical tensor, segment) that can hold
/// together use the same axes (captures are axes, `fuse` applied); every segment of a hub line is
/// stored by some line; every name the recipe uses is defined. Error(usage) naming both lines.
void check_meeting(const Recipe& recipe, const Dialect& dialect);

}  // namespace shardweld::models
