// A document is a JSONValue, so whoever uses one needs only `import BreakerDocuments`.
@_exported public import JSONText
