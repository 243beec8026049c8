// Recipes and dialects as data: the parsed form of src/models/recipes/*.{recipe,dialect}.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/metadata.hpp"
#include "core/shared_list.hpp"
#include "layout/expression.hpp"

namespace shardweld::models {

inline constexpr Bytes kMaxRecipe = 1'000'000;  ///< of a recipe file

/// An integer expression or condition as a tree. Evaluated by Symbols.
struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

/// Values of the indices in a name: {l} is 3.
using Captures = std::map<std::string, Index>;
/// Value of a symbol that a '{k+L}' adds (Symbols::value).
using SymbolValue = std::function<Index(const std::string&)>;

/// A name with captures. Hub patterns may hold '{k+L}' (capture plus symbol). No alternatives:
/// those are expanded to lines.
struct Pattern {
    std::string text;  ///< as written, e.g. "decoder.layers.{l}.mlp.linear_fc1.weight{e}"
    SharedList<std::string>
        literals;  ///< text between captures; literals.size() == captures.size() + 1
    SharedList<std::string> captures;  ///< names in order of appearance
    SharedList<std::string> plus;      ///< symbol added to capture i when writing, "" if none
    /// What conditions see as l where the name counts from 0 what the hub's counts on from the
    /// layers: the sum of a capture and a symbol.
    struct Layer {
        std::string capture;
        std::string plus;
    };
    std::optional<Layer> layer = {};

    static Pattern parse(std::string_view text);
    /// Capture values when the whole `name` matches (digits without leading zeros). A '{k+L}' needs
    /// `value_of` for L, and a number that is not below it.
    [[nodiscard]] std::optional<Captures> match(std::string_view name,
                                                const SymbolValue& value_of = {}) const;
    /// Capture values when the beginning of `name` matches, which is left with what is behind it.
    /// No '{k+L}'.
    [[nodiscard]] std::optional<Captures> match_beginning(std::string_view& name) const;
};

/// How rank-local shards of one stored tensor are put together (dialect lines, `<...>`).
struct JoinStep {
    enum class Group { tp, etp, ep, fsdp } group = Group::tp;
    int dim = 0;              ///< concatenated on this dim in rank order
    bool or_replica = false;  ///< `k?`: replicas when the local extent already is the full one
    bool stack = false;       ///< `+0`: stacked as new dim 0
    friend bool operator==(const JoinStep&, const JoinStep&) = default;
};
/// The steps that turn shards of one name into the whole tensor.
struct Join {
    bool flat = false;      ///< the local tensor is seen as one-dimensional first
    bool by_shape = false;  ///< no steps written: those that give the shape the layout implies
    std::vector<JoinStep> steps;  ///< in the order written; empty: replicas, compared
    friend bool operator==(const Join&, const Join&) = default;
};

/// The layers of one kind in one tensor: its name, without the capture along which it counts those
/// for which the condition holds.
struct KindStack {
    Pattern name;
    std::string capture;
    ExprPtr condition;
};

/// One line: a stored name (dialect) or hub name (recipe) and the logical tensor it holds.
struct Line {
    Pattern name;
    std::string logical;  ///< e.g. "layer.{l}.qkv"
    layout::Layout layout;
    std::optional<Join> join;  ///< store lines only; nullopt: none written
    ExprPtr condition;         ///< `if`, null if none
    bool optional = false;
    bool together = false;         ///< optional, but all or none of those below one logical prefix
    std::optional<DType> keep;     ///< `keep f32`
    Index add = 0;                 ///< `add 1`
    SharedList<std::string> drop;  ///< segments that are not used
    std::string drop_as;  ///< what they are written as: a segment's label, "0", or "" for nothing
    ExprPtr below;        ///< what they are smaller than (`drop pad below UNIT`), or null
    std::string repeat;   ///< axis that counts equal copies of the segments which keep it after
                          ///< `fuse`, "" if none
    /// The first alternative of a name that is another of its alternatives. A name below an `at`
    /// with alternatives also has the one with the first prefix here.
    std::vector<std::string> firsts;
    bool is_read_only = false;  ///< `unwritten`
    std::string stack;          ///< capture that may be a leading axis instead, "" if none
    bool is_stacked = false;    ///< here it is that axis
    std::shared_ptr<const KindStack> kind_stack;  ///< what it is written as a part of, or null
    std::string origin;                           ///< "llama.recipe:24", for messages
};

/// The labels of a line's segments; one "" where it has none.
std::vector<std::string> labels_of(const Line& line);

struct SameRule {
    std::string a;
    std::string b;  ///< logical names: a, where present, must equal b and is not written
    ExprPtr condition;
    std::string origin;
};

/// A pattern of stored names that are no part of the model.
struct IgnoreRule {
    std::vector<std::string> globs;
    std::string reason;
};

/// `alias PREFIX = PREFIX stacked l if COND`: stored names that begin with `from` are those that
/// begin with `to`. One that begins with `stack` holds, along its first axis, those of all values
/// of the capture `stacked` for which the condition holds, in ascending order.
struct AliasRule {
    Pattern from;
    Pattern to;
    Pattern stack;        ///< `from` without the capture
    std::string stacked;  ///< "": no stacked form
    ExprPtr condition;    ///< over the captures of `from`
    std::string origin;
};

/// `written GLOB.. if COND`, `unwritten GLOB..`: which of the names that are read are written.
/// `inside PREFIX if COND`: names that are read with the prefix and without it are written with it.
/// `kept GLOB.. if COND`: logical tensors that are written with the hub's lines.
/// `separate CAPTURE if COND`: what the capture counts is never one tensor.
/// `needs END.. if COND`: ends of names of what passes, or of what is optional as checkpoints go,
/// of which each entry has one ("a.weight|b.weight") in a whole model.
struct NamesRule {
    std::vector<std::string> names;  ///< globs, the prefix, the capture or ends
    ExprPtr condition;               ///< null: always; of `unwritten` not used
    std::string origin;
};

/// `rename PREFIX = HUB_PREFIX [in DIALECT] [unwritten]`: names of the module tree, or of a
/// framework, that begin otherwise on the hub.
struct RenameRule {
    std::string from;
    std::string to;
    std::string dialect = {};   ///< "": the module tree's
    bool is_read_only = false;  ///< not one of those with which the framework's names are written
    /// `from` and `to` where they hold captures.
    std::shared_ptr<const std::pair<Pattern, Pattern>> counted = nullptr;
};

struct ConfigEdit {
    std::string field;
    std::optional<std::string> value;  ///< JSON text; nullopt: remove the field
    bool if_present = false;           ///< else: if absent
    std::string logical_glob;
};

/// `claim FIELD = NAME if COND`: config.json's FIELD must equal what the checkpoint states under
/// NAME, when both are there and the condition (over @fields and $names) holds.
struct ClaimRule {
    ExprPtr field;         ///< over @fields of config.json, with `else`
    std::string name;      ///< key of catalogue::StatedConfig
    bool at_most = false;  ///< `<=`: the field may be smaller than what is stated
    ExprPtr condition;     ///< absent fields and names count as 0 in it
    std::string origin;    ///< "megatron_core.dialect:80"
};

/// `refuse "REASON" if COND`: the checkpoint states something that the recipe's lines do not mean.
struct RefuseRule {
    std::string reason;
    ExprPtr condition;  ///< over symbols, @fields and $names; an absent name counts as 0
    std::string origin;
};

/// A symbol that a file defines: `let`, `index`, `flag`, in a dialect `default`.
struct Definition {
    std::vector<ExprPtr> alternatives;  ///< tried in order (`else`); none of `sized` names
    std::string origin;
    bool is_index = false;  ///< the range of a capture
};

/// `lora DOWN UP parts DOWN UP`: what the names of LoRA's factors have instead of a weight's
/// `.weight`. DOWN is A, [rank, in], UP is B, [out, rank]; those of parts belong to one segment of
/// a fused weight, and have its label for their '*'.
struct LoraNames {
    std::string down;
    std::string up;
    std::string part_down;
    std::string part_up;
};

/// `key NAME TYPE = VALUE else VALUE .. if COND`: what a written file says of the model.
struct KeyRule {
    /// A text in quotes, or an expression; of a real or a text a field as config.json has it.
    struct Value {
        std::optional<std::string> literal;
        std::optional<double> number;  ///< of a real the literal's
        ExprPtr expr;
        double factor = 1;  ///< of a real: `times "0.1"`
    };
    std::string name;  ///< "rope.freq_base"
    MetadataField::Type type = MetadataField::Type::u32;
    std::vector<Value> values;  ///< the first one that there is
    ExprPtr condition;
    bool optional = false;  ///< left out where there is no value
    std::string origin;
};

/// A framework's stored names and forms.
struct Dialect {
    std::string name;
    std::string origin;       ///< "megatron_core.dialect:1"
    std::string extends;      ///< "" if nothing
    std::vector<Line> store;  ///< `at` blocks and stacked forms expanded
    std::vector<AliasRule> aliases;
    std::vector<IgnoreRule> ignore;
    std::vector<ClaimRule> claims;
    std::vector<RefuseRule> refusals;
    std::map<std::string, Definition> defaults;
    std::vector<std::string> facts;  ///< symbols given by the reader
    std::map<std::string, std::vector<std::string>>
        fuse;  ///< axis -> the axes (outermost first) that make it up
    /// As `fuse`, for axes whose extents follow from parallel sizes. They are fused where a
    /// checkpoint is written for other sizes than it was saved with.
    std::map<std::string, std::vector<std::string>> regroup;
    std::vector<std::string> families;  ///< recipes that meet it without `uses`, and only they
    /// The stored names are the recipe's own (`names recipe`): see own_names.
    bool has_own_names = false;
    std::vector<NamesRule> written_names;  ///< these rules: see training_form
    std::vector<NamesRule> unwritten_names;
    std::vector<NamesRule> insides;
    std::vector<NamesRule> separates;
    std::vector<NamesRule> kepts;
    std::optional<LoraNames> lora;  ///< see lora_form
    std::string written_format;  ///< "gguf"; `ignore` then names logical tensors. "" if it is read
    std::string architecture;    ///< what the format calls the family
    std::vector<KeyRule> keys;
    std::string rope_factors;  ///< the tensor of Llama 3's rotary factors, "" if there is none

    /// What a dialect that extends another one takes over (inherit); its keys it takes over by
    /// name, and `families` are each file's own.
    static constexpr auto inherited = [](auto& self) {
        return std::tie(self.aliases, self.ignore, self.claims, self.refusals, self.defaults,
                        self.facts, self.fuse, self.regroup, self.has_own_names, self.written_names,
                        self.unwritten_names, self.insides, self.separates, self.kepts, self.lora,
                        self.written_format, self.architecture, self.rope_factors);
    };
};

/// A family's hub names; `extends` resolved.
struct Recipe {
    std::string name;
    std::string origin;                 ///< "llama.recipe:1"
    std::string extends;                ///< "" if nothing
    int depth = 0;                      ///< number of `extends` above it
    bool is_extra = false;              ///< given at run time, not built in
    std::vector<std::string> dialects;  ///< `uses`
    ExprPtr match;                      ///< condition on the config
    std::vector<Line> hub;              ///< `at` blocks expanded
    std::vector<Line> module;           ///< module-tree lines, `at` blocks expanded
    std::vector<SameRule> same;
    std::vector<IgnoreRule> ignore;
    std::vector<RenameRule> renames;
    std::vector<RenameRule> eithers;  ///< beginnings in use on the hub, instead of one another
    std::vector<std::string> passes;  ///< globs of hub names that are written as they are stored
    std::vector<NamesRule> needs;
    /// Last parts of the names of logical tensors that are weights of linear layers, which may be
    /// written with fewer bits; those of one list are read as one tensor by servers.
    std::vector<std::vector<std::string>> linear;
    std::vector<ConfigEdit> config;
    std::map<std::string, Definition> symbols;
    std::vector<std::string> givens;
    std::vector<std::string> verified;  ///< what a recipe given at run time was compared with
    bool is_form = false;               ///< its hub lines are a written dialect's, see written_form
    std::vector<IgnoreRule> left_out = {};  ///< logical tensors that such a form does not have

    /// What a recipe that extends another one takes over (inherit), with the dialects that it does
    /// not drop; `match` and `verified` are each file's own.
    static constexpr auto inherited = [](auto& self) {
        return std::tie(self.same, self.ignore, self.renames, self.eithers, self.passes, self.needs,
                        self.linear, self.config, self.symbols, self.givens);
    };
};

/// Whether config.json says which tensors a model of the family has: not where the recipe has no
/// lines, or `sized` ones.
bool promises_tensors(const Recipe& recipe);

/// The dialect with the recipe's module and hub lines as its stored names, for checkpoints that
/// hold the module tree's tensors; a dialect without `names recipe` as it is.
Dialect own_names(const Recipe& recipe, Dialect dialect);

/// What a framework keeps of a LoRA adapter beside its weights, however the model is written.
struct LoraForm {
    /// A of a weight whose rows have fused segments, such as gate and up: it may be all of theirs.
    struct SharedFactor {
        Pattern name;
        std::vector<std::string> labels;
        ExprPtr condition;
    };
    Recipe recipe;    ///< its tensors are the factors, whole, under the framework's names
    Dialect dialect;  ///< the same as they are stored
    std::vector<SharedFactor> shared;
};

/// The lines of the factors of all weights of two dims behind those of stacks: A has the weight's
/// columns, B its rows. The rank is the fact `lora_rank`. `dialect` has `lora`. See lora_products.
LoraForm lora_form(const Recipe& recipe, const Dialect& dialect);

/// A recipe or dialect file as text: built in, or given with --recipe.
struct RecipeFile {
    std::string file_name;  ///< "llama.recipe"
    std::string text;
};

/// How the names of generated files begin.
inline constexpr std::string_view kGenerated = "generated/";

/// The built-in files, sorted by file name.
const std::vector<RecipeFile>& built_in_sources();
/// The one of that file name; nullptr: there is none.
const RecipeFile* built_in_file(std::string_view name);
/// Its text; "": there is none.
std::string_view built_in_text(std::string_view name);

struct Declaration;
struct FoundDeclaration;
/// What files declare, by name, before `extends` is worked out.
using Declarations = std::map<std::string, FoundDeclaration, std::less<>>;

/// All recipes and dialects, parsed; what they extend is worked out for those that are asked for.
/// Built-in files are replaced or joined by `extra` (same declared name replaces). Error(usage)
/// naming file and line on bad text; limits 1 MB and 10 000 lines a file, `extends` at most 8 deep,
/// no cycles. With `extra` it also checks that all lines of one (logical tensor, segment) use the
/// same axes after `fuse`, where a recipe meets a dialect and one of them rests on `extra`.
class RecipeLibrary {
  public:
    /// The built-in files and those of the user. Meetings of built-in ones alone are the same at
    /// every start: a unit test checks them.
    static RecipeLibrary load(const std::vector<RecipeFile>& extra = {});
    /// Checks each recipe with each dialect that it can meet, and each form in which it is written.
    /// Throws usage, naming the line.
    void check_meetings() const;
    [[nodiscard]] const Recipe* find_recipe(std::string_view name) const;
    /// The recipe that scripts/generate-recipes.py made of a model type, which is among none of
    /// the others'; null: there is none.
    [[nodiscard]] const Recipe* find_generated(std::string_view model_type) const;
    [[nodiscard]] const Dialect* find_dialect(std::string_view name) const;
    /// It without its lines, of which most serve other families.
    [[nodiscard]] const Dialect* find_rules(std::string_view name) const;
    /// It with all lines of each name that one line has for a logical tensor of the recipe's: what
    /// its other names mean is of no concern to the family.
    [[nodiscard]] Dialect dialect_for(const Recipe& recipe, std::string_view name) const;
    /// find_rules(dialect)->has_own_names without reading the dialect; false if there is none.
    [[nodiscard]] bool has_own_names(std::string_view dialect) const;
    /// The conditions under which a config.json is of a recipe, of every recipe that says so, by
    /// its name.
    [[nodiscard]] std::map<std::string, ExprPtr> matches() const;
    /// All of them, which takes time and memory.
    [[nodiscard]] std::vector<const Recipe*> recipes() const;
    [[nodiscard]] std::vector<const Dialect*> dialects() const;
    /// Text of the file that declares `name` (recipe or dialect), for `shardweld recipes NAME`.
    [[nodiscard]] const RecipeFile* source_of(std::string_view name) const;

    /// Whether the recipe's `uses` names the dialect, or one it extends, or the dialect's
    /// `families` the recipe; always for one with the recipe's own names.
    [[nodiscard]] bool can_meet(const Recipe& recipe, const Dialect& dialect) const;

  private:
    /// A dialect with what it extends; null: there is none.
    [[nodiscard]] const Declaration* find_resolved(std::string_view name) const;
    /// All meetings, or those in which a file of the user has a say.
    void check_stored(bool all) const;
    /// The forms in which a family is written.
    void check_forms(const Recipe& recipe) const;

    std::shared_ptr<const Declarations> declared_;
    // What was asked for; a command needs one family of many.
    mutable std::map<std::string, Recipe, std::less<>> recipes_;
    mutable std::map<std::string, Recipe, std::less<>> generated_;
    mutable std::map<std::string, Dialect, std::less<>> dialects_;
    mutable std::map<std::string, std::shared_ptr<const Declaration>, std::less<>> resolved_;
};

}  // namespace shardweld::models
