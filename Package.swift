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
  products: [
    .library(name: "SharedBreaker", targets: ["SharedBreaker"])
  ],
  targets: [
    .systemLibrary(
      name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .target(name: "CHost", dependencies: ["CSQLite"]),
    .target(name: "BreakerCore", swiftSettings: settings),
    .target(
      name: "BreakerStore", dependencies: ["BreakerCore", "CHost", "CSQLite"],
      resources: [.embedInCode("migrations")], swiftSettings: settings),
    .target(
      name: "SharedBreaker", dependencies: ["BreakerCore", "BreakerStore"],
      swiftSettings: settings),
    .testTarget(
      name: "BreakerCoreTests", dependencies: ["BreakerCore"], swiftSettings: settings),
  ],
  cLanguageStandard: .c11
)
