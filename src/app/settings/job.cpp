#include "job.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "core/regex.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

std::optional<Regex> compiled(const std::optional<std::string>& text, const std::string& option) {
    if (!text) {
        return std::nullopt;
    }
    try {
        return Regex(*text);
    } catch (const Error& error) {
        throw Error(ErrorCode::usage,
                    option + " " + printable(*text) +
                        " is not a regular expression that shardweld can use (" +
                        printable(error.what()) + ")",
                    "write it without look-around and back-references, which RE2 does not have");
    }
}

/// Why a name is left out; "" when it is selected.
std::function<std::string(const std::string&)> reasons(const Selection& selection) {
    return [include = compiled(selection.include, "--include"),
            exclude = compiled(selection.exclude, "--exclude")](const std::string& name) {
        if (include && !include->is_found_in(name)) {
            return "not in --include";
        }
        return exclude && exclude->is_found_in(name) ? "in --exclude" : "";
    };
}

[[noreturn]] void refuse_averaging(const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::usage, message, hint);
}

void require_as_many(const std::string& option, std::size_t n_given, std::size_t n_checkpoints) {
    if (n_given != n_checkpoints) {
        refuse_averaging("--" + option + " has " + std::to_string(n_given) + " numbers for " +
                             counted(n_checkpoints, "checkpoint"),
                         "give one number for each, in the order of the checkpoints");
    }
}

/// The weights divided by their sum, which is added up in the order given. A sum that is 1 but for
/// the rounding of decimal fractions changes none.
std::vector<double> normalised(std::vector<double> weights) {
    constexpr double kNearlyOne = 1e-12;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (std::abs(sum - 1) > kNearlyOne) {
        std::ranges::for_each(weights, [&](double& weight) { weight /= sum; });
    }
    return weights;
}

/// The last weighs most.
std::vector<double> decayed(double decay, std::size_t n) {
    std::vector<double> powers;
    for (std::size_t k = 0; k < n; ++k) {
        powers.push_back(std::pow(decay, static_cast<double>(n - 1 - k)));
    }
    const double sum = std::accumulate(powers.begin(), powers.end(), 0.0);
    std::ranges::for_each(powers, [&](double& power) { power /= sum; });
    return powers;
}

/// What each checkpoint is multiplied by, before it is rounded to fp32.
std::vector<double> exact_factors(const Averaging& averaging) {
    const std::size_t n = averaging.n_checkpoints;
    if (averaging.decay) {
        return decayed(*averaging.decay, n);
    }
    if (averaging.base) {
        return averaging.scales.size() == 1 ? std::vector<double>(n, averaging.scales.front())
                                            : averaging.scales;
    }
    return averaging.weights.empty() ? std::vector<double>(n, 1.0 / static_cast<double>(n))
                                     : normalised(averaging.weights);
}

/// Weights that add up to nothing, or to less, have no average.
void require_average(const Averaging& averaging) {
    const double sum = std::accumulate(averaging.weights.begin(), averaging.weights.end(), 0.0);
    const bool is_finite = std::ranges::all_of(averaging.factors(),
                                               [](float factor) { return std::isfinite(factor); });
    if (sum <= 0 || !is_finite) {
        refuse_averaging(
            "--average_weights " + joined(averaging.weights, ",", number_text) + " add up to " +
                number_text(sum) + ": weights are divided by their sum, which must be above 0",
            "give weights above 0; for sums and differences of models use --task_arithmetic "
            "BASE --scale LIST");
    }
}

/// The first rank that tells another text than rank 0; as many as there are: none does.
std::size_t first_other(const std::vector<std::string>& texts) {
    const auto other = std::ranges::find_if(texts, [&](auto& one) { return one != texts[0]; });
    return as_size(other - texts.begin());
}

}  // namespace

void check_expression(const std::string& text, const std::string& option) {
    (void)compiled(text, option);
}

std::function<bool(const std::string&)> selects(const Selection& selection) {
    return
        [why_out = reasons(selection)](const std::string& name) { return why_out(name).empty(); };
}

void select(plan::Binding& binding, const Selection& selection) {
    const auto why_out = reasons(selection);
    plan::Targets kept;
    std::vector<std::optional<std::size_t>> place;
    for (plan::Target& target : binding.targets) {
        if (const std::string reason = why_out(target.name); !reason.empty()) {
            binding.ledger.leave_out(target, reason);
            place.emplace_back(std::nullopt);
        } else {
            place.emplace_back(kept.size());
            kept.push_back(std::move(target));
        }
    }
    if (kept.empty()) {
        throw Error(ErrorCode::usage, "--include and --exclude leave no tensor",
                    "they are matched against the names of the output, which plan --json lists");
    }
    binding.targets = std::move(kept);
    std::erase_if(binding.same, [&](plan::SamePair& pair) {
        const auto at = place[pair.target];
        pair.target = at.value_or(0);
        return !at;
    });
}

std::vector<float> Averaging::factors() const {
    const std::vector<double> exact = exact_factors(*this);
    return collect_list<float>(exact, [](double factor) { return static_cast<float>(factor); });
}

std::string Averaging::text() const {
    const std::string numbers = joined(exact_factors(*this), ", ", number_text);
    const std::size_t n = n_checkpoints;
    if (base) {
        return "the base plus " + counted(n, "difference") + ", times " + numbers;
    }
    const bool is_changed = !weights.empty() && normalised(weights) != weights;
    return "average of " + std::to_string(n) + ": " + numbers +
           (is_changed ? " (--average_weights " + joined(weights, ",", number_text) +
                             ", divided by their sum)"
                       : "");
}

void check_averaging(const Averaging& averaging) {
    if (averaging.is_average && averaging.n_checkpoints < 2) {
        refuse_averaging("an average needs two checkpoints or more",
                         "list them all, and the target behind them: --average DIR DIR OUT");
    }
    if (!averaging.weights.empty()) {
        require_as_many("average_weights", averaging.weights.size(), averaging.n_checkpoints);
        require_average(averaging);
    }
    if (averaging.scales.size() > 1) {
        require_as_many("scale", averaging.scales.size(), averaging.n_checkpoints);
    }
}

std::vector<fs::path> averaged(const Job& job) {
    std::vector<fs::path> directories = collect_list<fs::path>(
        job.inputs, &formats::JobInput::directory, [&](const formats::JobInput& input) {
            return input.use == formats::Role::weights || input.use == formats::Role::mixed;
        });
    if (job.model.averaging.base) {
        directories.erase(directories.begin() + 1);
    }
    return directories;
}

void require_same_program(mpi::Comm& comm, const std::string& mine) {
    const std::vector<std::string> all = mpi::gather(comm, mine);
    if (const std::size_t rank = first_other(all); rank < all.size()) {
        throw Error(ErrorCode::launch,
                    "ranks 0 and " + std::to_string(rank) + " run different programs: shardweld " +
                        all[0] + " and " + all[rank],
                    "install one version on all nodes");
    }
}

void require_same_options(mpi::Comm& comm, const std::string& text) {
    const std::vector<std::string> all = mpi::gather(comm, text);
    if (const std::size_t rank = first_other(all); rank < all.size()) {
        throw Error(ErrorCode::usage,
                    "ranks 0 and " + std::to_string(rank) + " were started with different options",
                    "only directories may differ between ranks");
    }
}

}  // namespace shardweld::app
