// The catalogue's words, which are the formats' own: what they make of files.
#pragma once

#include "catalogue/catalogue.hpp"

namespace shardweld::formats {

using catalogue::Catalogue;
using catalogue::Coordinates;
using catalogue::ElementPlace;
using catalogue::File;
using catalogue::FileAssertion;
using catalogue::Ignored;
using catalogue::kMaster;
using catalogue::kMoment;
using catalogue::kSquaredMoment;
using catalogue::MasterSample;
using catalogue::MasterSamples;
using catalogue::MeshDim;
using catalogue::Optimizer;
using catalogue::Piece;
using catalogue::Shard;
using catalogue::State;
using catalogue::StatedConfig;
using catalogue::Tensor;

}  // namespace shardweld::formats
