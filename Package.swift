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

/// Each layer imports only the ones named here, so the build checks the arrows of the design.
let package = Package(
  name: "shared-breaker",
  products: [
    .library(name: "SharedBreaker", targets: ["SharedBreaker"]),
    .library(name: "SharedBreakerTesting", targets: ["SharedBreakerTesting"]),
    .executable(name: "cbctl", targets: ["cbctl"]),
    .executable(name: "cbrelay", targets: ["cbrelay"]),
    // The C library; scripts/build-library builds it as it is shipped.
    .library(name: "sharedbreaker", type: .dynamic, targets: ["LibSharedBreaker"]),
  ],
  targets: [
    .systemLibrary(
      name: "CSQLite", path: "Sources/Breaker/CSQLite", pkgConfig: "sqlite3",
      providers: [.apt(["libsqlite3-dev"])]),
    .target(name: "CHost", dependencies: ["CSQLite"], path: "Sources/Breaker/CHost"),
    .target(name: "BreakerCore", path: "Sources/Breaker/BreakerCore", swiftSettings: settings),
    .target(
      name: "BreakerStore", dependencies: ["BreakerCore", "CHost", "CSQLite"],
      path: "Sources/Breaker/BreakerStore", resources: [.embedInCode("migrations")],
      swiftSettings: settings),
    .target(
      name: "JSONText", dependencies: ["BreakerCore"], path: "Sources/Breaker/JSONText",
      swiftSettings: settings),
    .target(
      name: "SharedBreaker", dependencies: ["BreakerCore", "BreakerStore", "CHost", "JSONText"],
      path: "Sources/Breaker/SharedBreaker", swiftSettings: settings),
    .target(
      name: "SharedBreakerTesting", dependencies: ["SharedBreaker", "BreakerCore", "BreakerStore"],
      path: "Sources/Breaker/SharedBreakerTesting", swiftSettings: settings),
    .target(
      name: "BreakerDocuments", dependencies: ["SharedBreaker", "JSONText"],
      path: "Sources/Command/BreakerDocuments", swiftSettings: settings),
    .systemLibrary(name: "CSharedBreaker", path: "Sources/Bindings/CSharedBreaker"),
    .target(
      name: "LibSharedBreaker",
      dependencies: [
        "BreakerCore", "BreakerDocuments", "BreakerStore", "CSharedBreaker", "SharedBreaker",
      ],
      path: "Sources/Bindings/LibSharedBreaker", swiftSettings: settings),
    .target(name: "CArguments", path: "Sources/Command/CArguments"),
    // What cbctl and cbrelay share.
    .target(
      name: "ProgramKit", dependencies: ["CArguments", "JSONText", "SharedBreaker"],
      path: "Sources/Command/ProgramKit", swiftSettings: settings),
    .target(
      name: "ControlKit",
      dependencies: ["BreakerDocuments", "ProgramKit", "SharedBreaker"],
      path: "Sources/Command/ControlKit", swiftSettings: settings),
    .executableTarget(
      name: "cbctl", dependencies: ["ControlKit"], path: "Sources/Command/cbctl",
      swiftSettings: settings),
    // Without pkg-config: hiredis names a flag there that the package manager warns about.
    .systemLibrary(
      name: "CHiredis", path: "Sources/Fleet/CHiredis", providers: [.apt(["libhiredis-dev"])]),
    .systemLibrary(
      name: "COpenSSL", path: "Sources/Fleet/COpenSSL", pkgConfig: "openssl",
      providers: [.apt(["libssl-dev"])]),
    .target(
      name: "BreakerRelay",
      dependencies: ["CHiredis", "COpenSSL", "JSONText", "ProgramKit", "SharedBreaker"],
      path: "Sources/Fleet/BreakerRelay", swiftSettings: settings),
    .executableTarget(
      name: "cbrelay", dependencies: ["BreakerRelay"], path: "Sources/Fleet/cbrelay",
      swiftSettings: settings),
    .executableTarget(
      name: "demo-worker", dependencies: ["SharedBreaker"], path: "Sources/Examples/DemoWorker",
      swiftSettings: settings),
    .executableTarget(
      name: "worker-pool", dependencies: ["SharedBreaker"], path: "Sources/Examples/WorkerPool",
      swiftSettings: settings),
    .target(name: "CPrefork", path: "Sources/Examples/CPrefork"),
    .executableTarget(
      name: "prefork", dependencies: ["CPrefork", "SharedBreaker"],
      path: "Sources/Examples/Prefork", swiftSettings: settings),
    .executableTarget(
      name: "queue-consumer", dependencies: ["SharedBreaker"],
      path: "Sources/Examples/QueueConsumer", swiftSettings: settings),
    .executableTarget(
      name: "url-fetch", dependencies: ["SharedBreaker"], path: "Sources/Examples/URLFetch",
      swiftSettings: settings),

    .target(
      name: "TestSupport", dependencies: ["SharedBreaker", "BreakerStore", "CSQLite", "TestShim"],
      path: "Tests/Support/Support", swiftSettings: settings),
    .target(name: "TestShim", dependencies: ["CSQLite"], path: "Tests/Support/Shim"),
    .executableTarget(
      name: "puppet",
      dependencies: ["SharedBreaker", "BreakerStore", "ProgramKit", "TestSupport", "TestShim"],
      path: "Tests/Evidence/Puppet", exclude: ["README.md"], swiftSettings: settings),
    .executableTarget(
      name: "environments", dependencies: ["TestSupport"], path: "Tests/Evidence/Environments",
      exclude: ["README.md"], swiftSettings: settings),
    .target(name: "FaultShim", dependencies: ["CSQLite"], path: "Tests/Evidence/FaultShim"),
    .executableTarget(
      name: "fault-player",
      dependencies: ["SharedBreaker", "BreakerStore", "TestSupport", "FaultShim"],
      path: "Tests/Evidence/FaultPlayer", swiftSettings: settings),
    .target(name: "BenchShim", path: "Tests/Bench/BenchShim"),
    .executableTarget(
      name: "bench",
      dependencies: [
        "SharedBreaker", "CSQLite", "TestSupport", "TestShim", "BenchShim",
      ],
      path: "Tests/Bench/Bench", exclude: ["README.md"], swiftSettings: settings),
    .executableTarget(
      name: "torture",
      dependencies: [
        "BreakerCore", "BreakerStore", "ControlKit", "ProgramKit", "SharedBreaker", "TestShim",
        "TestSupport",
      ],
      path: "Tests/Evidence/Torture",
      exclude: ["Fleet/skew.c", "Limits/client.c", "Limits/client.py", "README.md"],
      swiftSettings: settings),
    .executableTarget(
      name: "fleet-simulation", dependencies: ["BreakerCore", "TestSupport"],
      path: "Tests/Evidence/FleetSimulation", swiftSettings: settings),
    .testTarget(
      name: "TortureTests", dependencies: ["SharedBreaker", "torture"],
      path: "Tests/Evidence/TortureTests", swiftSettings: settings),
    .testTarget(
      name: "BreakerCoreTests", dependencies: ["BreakerCore"],
      path: "Tests/Breaker/BreakerCoreTests", swiftSettings: settings),
    .testTarget(
      name: "BreakerStoreTests",
      dependencies: [
        "BreakerCore", "BreakerStore", "SharedBreaker", "TestSupport", "puppet", "cbctl",
      ],
      path: "Tests/Breaker/BreakerStoreTests", swiftSettings: settings),
    .testTarget(
      name: "SharedBreakerTests",
      dependencies: [
        "BreakerCore", "BreakerStore", "SharedBreaker", "SharedBreakerTesting", "TestShim",
        "TestSupport", "puppet",
      ],
      path: "Tests/Breaker/SharedBreakerTests", swiftSettings: settings),
    .testTarget(
      name: "LibSharedBreakerTests",
      dependencies: ["CSharedBreaker", "LibSharedBreaker", "SharedBreaker", "TestSupport"],
      path: "Tests/Bindings/LibSharedBreakerTests", swiftSettings: settings),
    .testTarget(
      name: "FaultTests", dependencies: ["TestSupport", "fault-player"],
      path: "Tests/Evidence/FaultTests", swiftSettings: settings),
    .testTarget(
      name: "ControlKitTests",
      dependencies: [
        "BreakerDocuments", "ControlKit", "ProgramKit", "SharedBreaker", "BreakerStore",
        "BreakerCore", "TestSupport", "TestShim", "cbctl",
      ],
      path: "Tests/Command/ControlKitTests", exclude: ["Snapshots"], swiftSettings: settings),
    .testTarget(
      name: "BreakerRelayTests",
      dependencies: ["BreakerRelay", "SharedBreaker", "TestSupport", "cbrelay"],
      path: "Tests/Fleet/BreakerRelayTests", swiftSettings: settings),
    .testTarget(
      name: "CommandLineTests",
      dependencies: [
        "SharedBreaker", "TestSupport", "bench", "cbctl", "fleet-simulation", "prefork",
        "queue-consumer", "url-fetch", "worker-pool",
      ],
      path: "Tests/Command/CommandLineTests", swiftSettings: settings),
  ],
  cLanguageStandard: .c11
)

// The fuzz targets are a program only for scripts/fuzz, because it has no main function without
// libFuzzer. Otherwise they are tests, which run the kept corpus.
let fuzzDependencies: [Target.Dependency] = [
  "BreakerDocuments", "ControlKit", "ProgramKit", "SharedBreaker", "SharedBreakerTesting",
  "BreakerStore", "BreakerCore", "CSharedBreaker", "LibSharedBreaker", "TestSupport",
]
package.targets.append(
  Context.environment["SHARED_BREAKER_FUZZ"] == nil
    ? .testTarget(
      name: "FuzzTests", dependencies: fuzzDependencies, path: "Tests/Evidence/Fuzz",
      exclude: ["Corpus", "Dictionaries"], swiftSettings: settings)
    : .executableTarget(
      name: "fuzz", dependencies: fuzzDependencies, path: "Tests/Evidence/Fuzz",
      exclude: ["Corpus", "Dictionaries", "CorpusTests.swift"], swiftSettings: settings))

// A script can ask for a part of the tests, with their dependencies. Building the others would take
// most of its time.
let parts = [
  "core": ["BreakerCoreTests"],
  // For ThreadSanitizer, tests with threads. For AddressSanitizer, tests that use C memory or run
  // out of memory.
  "thread": ["BreakerStoreTests", "SharedBreakerTests"],
  "address": [
    "BreakerStoreTests", "SharedBreakerTests", "FaultTests", "LibSharedBreakerTests",
  ],
]
if let part = Context.environment["SHARED_BREAKER_PART"] {
  guard var needed = parts[part] else { fatalError("SHARED_BREAKER_PART: there is no \(part)") }
  let targets = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
  var kept = Set<String>()
  while let name = needed.popLast() {
    kept.insert(name)
    for case .byNameItem(let dependency, _) in targets[name]?.dependencies ?? [] {
      needed.append(dependency)
    }
  }
  package.products = []
  package.targets.removeAll { !kept.contains($0.name) }
}
