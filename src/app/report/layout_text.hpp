// What is said of a model that has the files of a reference (--layout_like).
#pragma once

#include <string>
#include <vector>

#include "outputs/layout_like.hpp"

namespace shardweld::app {

/// The reference, and in what a model differs from it.
struct LayoutReport {
    std::string reference;  ///< its directory
    outputs::LayoutAgreement found;
};

/// Which files have the reference's headers, and why the others have not; then the dtypes and
/// shapes that differ, if any do, with the option that gives the reference's.
std::vector<std::string> layout_texts(const LayoutReport& layout);

/// "headers of the reference in 3 of 4 weight files"
std::string kept_text(const outputs::LayoutAgreement& found);

}  // namespace shardweld::app
