#include "chain.hpp"

#include <utility>

#include "app/delta/versions.hpp"
#include "app/delta/write_delta.hpp"
#include "io/paths.hpp"

namespace shardweld::app::watching {

namespace {

fs::path resolved_if_given(const fs::path& path) {
    return path.empty() ? path : io::resolved(path);
}

}  // namespace

Chain::Chain(const Options& options, fs::path out, const Earlier& earlier)
    : out_(std::move(out)),
      against_(resolved_if_given(options.delta_against)),
      directory_(resolved_if_given(options.delta_dir)) {
    if (directory_.empty()) {
        return;
    }
    if (const auto known = earlier.links.find(directory_.string()); known != earlier.links.end()) {
        links_ = known->second;
    }
    check_delta(links_.last ? fs::path() : options.delta_against, directory_);
}

DeltaOrder Chain::order_for(const StepPlace& step) const {
    if (directory_.empty()) {
        return {};
    }
    if (!links_.last) {
        return {!against_.empty() && !needs(step.name), "", false, true};
    }
    const Link& last = *links_.last;
    const bool is_behind = step.number < last.number || links_.done.contains(step.name);
    // The model that the last version leads to was made anew: if it is the same, all is well.
    if (last.step == step.name) {
        return {last.version > 0, last.step, is_behind, true};
    }
    return {true, last.step, is_behind, last_version(directory_) != last.version};
}

const Link& Chain::begin(const StepPlace& step) {
    add({step.name, step.number, last_version(directory_)});
    return *links_.last;
}

void Chain::add(const Link& link) {
    links_.last = link;
    links_.done.insert(link.step);
}

bool Chain::needs(const std::string& step) const {
    if (directory_.empty()) {
        return false;
    }
    return links_.last ? links_.last->step == step : against_ == io::resolved(out_ / step);
}

}  // namespace shardweld::app::watching
