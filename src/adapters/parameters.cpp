#include "parameters.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "layout/expression.hpp"
#include "models/pattern.hpp"
#include "shardweld/error.hpp"

#include "declared.hpp"
#include "target_modules.hpp"

namespace shardweld::adapters {

namespace {

using layout::BoundLayout;
using models::Captures;
using models::Line;

/// Where the axes of one segment stand in the last two dims of a tensor.
struct AxisPlaces {
    Index offset[2] = {0, 0};
    std::map<std::string, std::pair<std::size_t, Index>> axes;  ///< dim and step of long ones
};

/// By label. The dim in front of the last two counts matrices.
std::map<std::string, AxisPlaces> placed(const BoundLayout& bound) {
    const std::vector<Index>& shape = bound.shape();
    const Index row = shape.back();
    const Index matrix = row * shape[shape.size() - 2];
    std::vector<layout::SegmentPatch> patches;
    bound.lower(layout::dense_shape(shape), patches);
    std::map<std::string, AxisPlaces> segments;
    for (const layout::SegmentPatch& segment : patches) {
        const layout::SegmentAxes& names =
            bound.segments()[static_cast<std::size_t>(segment.segment)];
        AxisPlaces& one = segments[names.label];
        one.offset[0] = segment.patch.offset / row;
        one.offset[1] = segment.patch.offset % row;
        for (const std::size_t k : indices(names.axes)) {
            const layout::Axis& axis = segment.patch.axes[k];
            if (axis.extent > 1 && axis.stride < matrix) {
                one.axes[names.axes[k]] = axis.stride < row
                                              ? std::pair(std::size_t{1}, axis.stride)
                                              : std::pair(std::size_t{0}, axis.stride / row);
            }
        }
    }
    return segments;
}

/// One dim of a target's matrix along the parameter's; nullopt where it is no regular part of one.
std::optional<Along> along(std::size_t dim, const AxisPlaces& target, const AxisPlaces& parameter) {
    std::optional<Along> found;
    for (const auto& [name, at] : target.axes) {
        if (at.first != dim) {
            continue;
        }
        auto* const there = find_value(parameter.axes, name);
        if (there == nullptr || there->second % at.second != 0) {
            return std::nullopt;
        }
        const auto [its_dim, its_step] = *there;
        Along one;
        one.is_first = its_dim == 0;
        one.step = its_step / at.second;
        one.start = parameter.offset[its_dim] - one.step * target.offset[dim];
        if (found && *found != one) {
            return std::nullopt;
        }
        found = one;
    }
    return found;
}

/// All segments of a target along a parameter's.
std::optional<std::pair<Along, Along>> related(const BoundLayout& target,
                                               const BoundLayout& parameter) {
    const auto theirs = placed(parameter);
    std::optional<std::pair<Along, Along>> found;
    for (const auto& [label, one] : placed(target)) {
        auto* const at = find_value(theirs, label);
        const auto rows = at == nullptr ? std::nullopt : along(0, one, *at);
        const auto cols = at == nullptr ? std::nullopt : along(1, one, *at);
        if (!rows || !cols || rows->is_first == cols->is_first ||
            (found && *found != std::pair(*rows, *cols))) {
            return std::nullopt;
        }
        found = std::pair(*rows, *cols);
    }
    return found;
}

/// How much of a parameter the model has in tensors.
Index held_of(const LoraParameter& parameter, const ParameterSurroundings& known) {
    Index held = 0;
    for (const ParameterPart& part : parameter.parts) {
        auto* const shape = find_value(known.shapes, part.target);
        held += shape == nullptr ? 0 : volume_of(*shape, part.target);
    }
    return held;
}

/// Finds the parameters of one module.
class ParameterFinder {
  public:
    explicit ParameterFinder(const ParameterSurroundings& known) : known_(known) {}

    [[nodiscard]] std::vector<LoraParameter> find(const Module& module) const {
        std::vector<LoraParameter> found = by_lines(module.path);
        return found.empty() ? as_stored(module) : found;
    }

    /// Whether some line of a module says that its parameters hold input dims first: that of gate
    /// and up has them in one dim, the output's.
    [[nodiscard]] std::optional<bool> is_transposed(const std::string& path) const {
        for (const auto& [line, captures] : lines_of(path)) {
            for (std::size_t k = 1; k < 3 && line->layout.dims.size() == 3; ++k) {
                if (std::ranges::any_of(line->layout.dims[k], [](const layout::LayoutItem& item) {
                        return !item.segments.empty();
                    })) {
                    return k == 2;
                }
            }
        }
        return std::nullopt;
    }

  private:
    using FoundLines = std::vector<std::pair<const Line*, Captures>>;

    [[nodiscard]] Index value(const std::string& symbol, const Captures& captures) const {
        return known_.symbols->value(symbol, captures);
    }

    /// The lines of the module's parameters: those of module trees, and the hub's of other names.
    [[nodiscard]] FoundLines lines_of(const std::string& path) const {
        FoundLines found;
        std::set<std::string> names;
        for (const auto* const lines : {&known_.recipe->module, &known_.recipe->hub}) {
            for (const Line& line : *lines) {
                const auto captures = captures_of(line, path);
                if (captures && !names.contains(line.name.text)) {
                    found.emplace_back(&line, *captures);
                }
            }
            for (const auto& [line, captures] : found) {
                names.insert(line->name.text);
            }
        }
        return found;
    }

    [[nodiscard]] std::optional<Captures> captures_of(const Line& line,
                                                      const std::string& path) const {
        const std::string& text = line.name.text;
        const std::size_t dot = text.rfind('.');
        const bool is_weight = line.layout.dims.size() == 2 && text.ends_with(".weight");
        if (dot == std::string::npos || !(is_weight || counts_matrices(line))) {
            return std::nullopt;
        }
        const auto value_of = [&](const std::string& symbol) { return value(symbol, {}); };
        const auto captures = line.name.match(known_.hub_name(path + text.substr(dot)), value_of);
        if (!captures) {
            return std::nullopt;
        }
        const Captures seen = models::captures_for_condition(line.name, *captures, value_of);
        return known_.symbols->holds(line.condition, seen) ? std::optional(seen) : std::nullopt;
    }

    [[nodiscard]] bool counts_matrices(const Line& line) const {
        const layout::Dim& first = line.layout.dims.front();
        return line.layout.dims.size() == 3 && first.size() == 1 &&
               first.front().segments.empty() && known_.symbols->is_index(first.front().name);
    }

    [[nodiscard]] std::vector<LoraParameter> by_lines(const std::string& path) const {
        std::vector<LoraParameter> found;
        for (const auto& [line, captures] : lines_of(path)) {
            const BoundLayout bound = bind(*line, captures);
            const std::vector<Index>& shape = bound.shape();
            LoraParameter one;
            one.is_matrix = shape.size() == 2;
            one.path =
                path + (one.is_matrix ? "" : line->name.text.substr(line->name.text.rfind('.')));
            one.n_batches = one.is_matrix ? 1 : shape[0];
            one.n_first = shape[shape.size() - 2];
            one.n_second = shape.back();
            add_parts(*line, captures, bound, one);
            if (!one.is_matrix || held_of(one, known_) == shape[0] * shape[1]) {
                found.push_back(std::move(one));
            }
        }
        return found;
    }

    [[nodiscard]] BoundLayout bind(const Line& line, const Captures& captures) const {
        return BoundLayout::bind(
            line.layout, [&](const std::string& symbol) { return value(symbol, captures); });
    }

    void add_parts(const Line& line, const Captures& captures, const BoundLayout& bound,
                   LoraParameter& parameter) const {
        const std::string& counter = line.layout.dims.front().front().name;
        for (const Line& hub : known_.recipe->hub) {
            if (hub.logical != line.logical || hub.layout.dims.size() < 2 ||
                !known_.symbols->holds(hub.condition, captures)) {
                continue;
            }
            const auto places = related(bind(hub, captures), bound);
            if (!places) {
                continue;
            }
            const bool is_single = contains(hub.name.captures, counter);
            for (Index batch = 0; batch < (is_single ? parameter.n_batches : 1); ++batch) {
                Captures own = captures;
                own[counter] = batch;
                parameter.parts.push_back(
                    {models::format(hub.name, own,
                                    [&](const std::string& symbol) { return value(symbol, {}); }),
                     is_single ? std::optional(batch) : std::nullopt, places->first,
                     places->second});
            }
        }
    }

    /// Parameters that no recipe tells of: stored tensors of three dims, and of two where the
    /// configuration says that the module has one.
    [[nodiscard]] std::vector<LoraParameter> as_stored(const Module& module) const {
        std::vector<LoraParameter> found;
        const std::string& path = module.path;
        const std::string inside = known_.hub_name(path + ".weight");
        const std::string begin = inside.substr(0, inside.rfind('.') + 1);
        for (auto at = known_.shapes.lower_bound(begin);
             at != known_.shapes.end() && at->first.starts_with(begin); ++at) {
            const std::string leaf = at->first.substr(begin.size());
            const std::size_t n = at->second.size();
            if ((n == 3 || (n == 2 && module.is_parameter)) && !has_part(leaf, '.')) {
                found.push_back({path + "." + leaf,
                                 n == 2 ? 1 : at->second[0],
                                 at->second[n - 2],
                                 at->second[n - 1],
                                 false,
                                 {{at->first, std::nullopt, {true, 0, 1}, {false, 0, 1}}},
                                 n == 2});
            }
        }
        return found;
    }

    const ParameterSurroundings& known_;
};

bool fits_factors(const Module& module, const LoraParameter& parameter, bool is_turned) {
    const Index columns_of_a = is_turned ? parameter.n_first : parameter.n_second;
    const Index rows_of_b = is_turned ? parameter.n_second : parameter.n_first;
    return parameter.n_batches > 0 && module.rank % parameter.n_batches == 0 &&
           module.n_in == columns_of_a && module.n_out == rows_of_b;
}

[[noreturn]] void refuse_factors(const Module& module, const std::string& why) {
    throw Error(ErrorCode::unsupported,
                "the factors of " + printable(module.path) + " (A [" + std::to_string(module.rank) +
                    ", " + std::to_string(module.n_in) + "], B [" + std::to_string(module.n_out) +
                    ", " + std::to_string(module.rank) + "]) " + why,
                "use --lora split, and load base and adapter with peft");
}

/// Whether one release is older than another.
bool is_older(const std::string& one, const std::string& other) {
    const auto numbers = [](const std::string& version) {
        std::vector<Index> parts = collect_list(
            split(version, '.'),
            [&](const std::string_view part) { return parse_index(part).value_or(0); });
        parts.resize(3, 0);
        return parts;
    };
    return numbers(one) < numbers(other);
}

/// Until peft 0.19.1 the first dim of a parameter that is no transposed one was taken for the
/// input's: its factors are turned.
class Order {
  public:
    Order(const ParameterSurroundings& known, std::vector<std::string>& notes)
        : path_(known.config_path), release_(known.release), notes_(notes) {}

    /// A parameter whose shape tells it.
    void see(const LoraParameter& one) { (one.is_turned ? turned_ : straight_) = one.path; }

    /// Whether a square is turned. Error(unsupported) where nothing tells it.
    [[nodiscard]] bool is_turned(const Module& module, const LoraParameter& square) {
        if (turned_.empty() != straight_.empty()) {
            const bool turned = straight_.empty();
            if (!release_.version.empty() && is_turned_by_version() != turned) {
                note("the shapes of the factors of " + (turned ? turned_ : straight_) +
                     (turned ? " are those of releases before 0.19.1"
                             : " are those of releases since 0.19.1"));
            }
            return turned;
        }
        const bool is_new = !release_.since.empty() && !is_older(release_.since, kNewest);
        if (is_new && !release_.version.empty() && is_turned_by_version()) {
            note("its field " + release_.field + " came with " + release_.since +
                 ": saved again by such a release, and read so");
        }
        if (!is_new && !is_told()) {
            refuse_factors(module, "change " + printable(square.path) +
                                       ", a square of which nothing tells which dim is the "
                                       "input's" +
                                       (release_.version.empty()
                                            ? ""
                                            : ": by its fields " + path_ +
                                                  " was not written by the peft_version " +
                                                  printable(release_.version) + " that it states"));
        }
        return !is_new && is_turned_by_version();
    }

  private:
    static constexpr const char* kChanged = "0.19.1";
    static constexpr const char* kNewest = "0.20.0";  ///< the first whose fields tell it is newer

    [[nodiscard]] bool is_turned_by_version() const { return is_older(release_.version, kChanged); }

    /// Whether the version is one that could have written the file.
    [[nodiscard]] bool is_told() const {
        return !release_.version.empty() && !is_older(release_.version, release_.since) &&
               !(release_.lacks_newer && !is_older(release_.version, "0.19.0"));
    }

    void note(const std::string& sign) {
        std::string text =
            path_ + " states peft_version " + printable(release_.version) +
            ", of which parameters of experts are stored otherwise than here: " + sign;
        if (!contains(notes_, text)) {
            notes_.push_back(std::move(text));
        }
    }

    const std::string& path_;
    const Release& release_;
    std::vector<std::string>& notes_;
    std::string turned_;    ///< a parameter whose shape says so
    std::string straight_;  ///< one whose shape says the opposite
};

/// Whether a module's factors fit a parameter either way.
bool is_square(const Module& module, const LoraParameter& parameter) {
    return !parameter.is_matrix && fits_factors(module, parameter, false) &&
           fits_factors(module, parameter, true);
}

/// The parameters that a module's factors may change; squares count as straight.
std::vector<LoraParameter> fitting(const Module& module, const ParameterFinder& finder) {
    std::vector<LoraParameter> found;
    for (LoraParameter& one : finder.find(module)) {
        one.is_turned = !fits_factors(module, one, false);
        if (!one.is_turned || (!one.is_matrix && fits_factors(module, one, true))) {
            found.push_back(std::move(one));
        }
    }
    return found;
}

LoraParameter choose(const Module& module, const ParameterFinder& finder, Order& order) {
    std::vector<LoraParameter> found = fitting(module, finder);
    if (found.size() != 1) {
        refuse_factors(module, found.empty()
                                   ? "fit no weight of the base, and no parameter of experts"
                                   : "fit several parameters of the base: " +
                                         listed({found[0].path, found[1].path}));
    }
    LoraParameter& one = found.front();
    if (is_square(module, one)) {
        const auto transposed = finder.is_transposed(module.path);
        if (!transposed) {
            refuse_factors(module, "change " + printable(one.path) +
                                       ", a square of which nothing tells which dim is the "
                                       "input's");
        }
        one.is_turned = *transposed || order.is_turned(module, one);
    }
    return std::move(one);
}

void require_parts(const Module& module, const LoraParameter& parameter,
                   const ParameterSurroundings& known) {
    for (const ParameterPart& part : parameter.parts) {
        if (!known.shapes.contains(part.target)) {
            throw Error(ErrorCode::mismatch,
                        "the adapter changes " + printable(parameter.path) + ", but " +
                            printable(part.target) + " is not stored",
                        kTrainedOn);
        }
    }
    if (held_of(parameter, known) != parameter.n_batches * parameter.n_first * parameter.n_second) {
        refuse_factors(module, "change " + printable(parameter.path) +
                                   ", which the model holds in another order of its elements");
    }
}

}  // namespace

std::vector<std::string> mark_parameters(std::span<Module> modules,
                                         const SettingsSources& sources) {
    const nlohmann::ordered_json& declared = sources.adapter_config.json();
    const auto target_modules = declared.value("target_modules", nlohmann::ordered_json());
    std::set<std::string> nested =
        collect_set(modules, &Module::path, [&](const Module& module) { return module.depth > 0; });
    std::vector<std::string> idle = texts_of(
        declared.contains(kParameters) ? declared : sources.train_meta.json(), kParameters);
    const std::vector<std::string> entries = idle;
    for (Module& module : modules) {
        module.is_parameter = nested.contains(module.path);
        for (const std::string& entry : entries) {
            const std::size_t dot = entry.rfind('.');
            const bool is_it = dot == std::string::npos
                                   ? !covers(target_modules, std::span(&module, 1))
                                   : names_it(entry.substr(0, dot), module.path);
            if (is_it) {
                module.is_parameter = true;
                std::erase(idle, entry);
            }
        }
    }
    return idle;
}

ResolvedParameters resolve_parameters(std::span<Module> modules,
                                      const ParameterSurroundings& surroundings) {
    const ParameterFinder finder(surroundings);
    ResolvedParameters resolved;
    Order order(surroundings, resolved.notes);
    std::vector<std::size_t> places;
    for (const std::size_t i : indices(modules)) {
        const Module& module = modules[i];
        auto* const weight =
            find_value(surroundings.shapes, surroundings.hub_name(module.path + ".weight"));
        const bool has_weight = weight != nullptr && weight->size() < 3;
        if (has_weight || module.is_embedding || !module.is_matrix || finder.find(module).empty()) {
            continue;
        }
        places.push_back(i);
        const std::vector<LoraParameter> found = fitting(module, finder);
        if (found.size() == 1 && !is_square(module, found.front()) &&
            finder.is_transposed(module.path) == false) {
            order.see(found.front());
        }
    }
    for (const std::size_t i : places) {
        Module& module = modules[i];
        LoraParameter one = choose(module, finder, order);
        require_parts(module, one, surroundings);
        module.path = one.path;
        module.rank /= one.n_batches;
        module.is_parameter = module.is_parameter || !one.is_matrix;
        resolved.by_module.emplace(i, std::move(one));
    }
    return resolved;
}

plan::Fold fold_of(const Module& module, const LoraParameter& parameter, const ParameterPart& part,
                   Bytes a, Bytes b) {
    const Index batch = part.batch.value_or(0);
    const Index n = parameter.n_batches;
    // Rows of A are experts by ranks, columns of B ranks by experts.
    const plan::Matrix of_a{
        a + sizeof(float) * static_cast<Bytes>(batch * module.rank * module.n_in), module.n_in, 1,
        module.rank * module.n_in};
    const plan::Matrix of_b{b + sizeof(float) * static_cast<Bytes>(batch), module.rank * n, n, 1};
    const auto thinned = [&](bool is_b, const Along& way, bool is_left) {
        plan::Matrix matrix = is_b ? of_b : of_a;
        Index& along = is_b ? matrix.row_stride : matrix.col_stride;
        matrix.offset += sizeof(float) * static_cast<Bytes>(way.start * along);
        along *= way.step;
        if (is_b != is_left) {
            std::swap(matrix.row_stride, matrix.col_stride);
        }
        return matrix;
    };
    const bool rows_are_b = part.rows.is_first != parameter.is_turned;
    plan::Fold fold;
    fold.n_batches = part.batch ? 1 : n;
    fold.rank = module.rank;
    fold.left = thinned(rows_are_b, part.rows, true);
    fold.right = thinned(!rows_are_b, part.cols, false);
    return fold;
}

}  // namespace shardweld::adapters
