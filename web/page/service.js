// service.js - keeps the page for times without a network.  The network comes first, so that a new version is seen.
const CACHE = "chainrule-1";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
    const { request } = event;
    if (request.method !== "GET" || new URL(request.url).origin !== self.location.origin) return;
    event.respondWith(answer(request));
});

async function answer(request) {
    const cache = await caches.open(CACHE);
    try {
        const response = await fetch(request);
        if (response.ok) await cache.put(request, response.clone());
        return response;
    } catch (error) {
        const kept = await cache.match(request);
        if (kept) return kept;
        throw error;
    }
}
