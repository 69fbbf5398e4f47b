// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .treatAllWarnings(as: .error),
  .strictMemorySafety(),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Each layer imports only the ones named here, so the arrows of the design are checked by the build.
let package = Package(
  name: "shared-breaker",
  targets: [
    .target(name: "BreakerCore", swiftSettings: settings),
    .testTarget(
      name: "BreakerCoreTests", dependencies: ["BreakerCore"], swiftSettings: settings),
  ],
  cLanguageStandard: .c11
)
